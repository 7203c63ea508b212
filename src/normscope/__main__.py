"""`python -m normscope`, where the command is not on the path."""

from normscope.cli import main

if __name__ == "__main__":  # the processes of `bench --jobs` import this file
    main()

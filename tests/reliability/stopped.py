"""A program: the command line, killed (kill -9) after so many checkpoints; every step is saved."""

import os
import signal
import sys

from normscope.cli import main
from normscope.training import loop

left, save = int(sys.argv[1]), loop.Run.save


def counted(run: loop.Run) -> None:
    global left
    save(run)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


loop.Run.save_if_due = counted
main(sys.argv[2:])

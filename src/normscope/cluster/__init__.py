"""The same work on a Ray cluster. Needs the extra `cluster`; nothing else imports this room but the command line."""

"""How the command ends: its exit statuses."""

FAILED = 1
WRONG_USE = 2  # as argparse ends
SIGNALLED = 128  # plus the signal's number, as a shell reports it
INTERRUPTED = 130  # by SIGINT

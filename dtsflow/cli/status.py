"""How the command ends: its exit statuses."""

FAILED = 1
WRONG_USE = 2  # as argparse ends
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it

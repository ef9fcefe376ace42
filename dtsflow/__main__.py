"""`python -m dtsflow`: the same as the command `dtsflow`."""

import sys

from dtsflow.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())

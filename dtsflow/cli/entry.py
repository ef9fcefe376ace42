"""The console script: as little as can be, so that Ctrl-C always ends quietly."""

import sys

from dtsflow.cli.terminal import INTERRUPTED


def main() -> int:
    """Import the command line and run it; see `dtsflow.cli.main`."""
    try:
        from dtsflow.cli.main import main as command  # noqa: PLC0415  # it takes half a second

        return command()
    except KeyboardInterrupt:
        print("dtsflow: interrupted", file=sys.stderr)
        return INTERRUPTED

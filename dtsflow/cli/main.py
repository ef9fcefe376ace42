"""The command `dtsflow`: which command, and how errors end."""

import io
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from dtsflow.about import __version__
from dtsflow.cli.commands import COMMANDS
from dtsflow.cli.status import FAILED, INTERRUPTED, WRONG_USE
from dtsflow.errors import CommonError, ConfigError, DtsflowError, PlanError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; `run` may be left out.

    0: done. 1: something failed. 2: the command line or configuration is wrong, or
    cannot be planned.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _log_to_console()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may not know all characters
    try:
        return _dispatch(words)
    except DtsflowError as error:
        if not isinstance(error, CommonError) or error.is_told_here:
            print(f"dtsflow: {error}", file=sys.stderr)
        cause = error.__cause__ if isinstance(error, CommonError) else error
        return WRONG_USE if isinstance(cause, ConfigError | PlanError) else FAILED
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does; exit would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, MemoryError) as error:
        print(f"dtsflow: {type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("dtsflow: interrupted", file=sys.stderr)
        return INTERRUPTED


def _log_to_console() -> None:
    """Show warnings, and what the volume stage says while it makes data."""
    console = logging.StreamHandler()
    console.setFormatter(logging.Formatter("%(message)s"))
    console.addFilter(
        lambda record: record.levelno >= logging.WARNING or record.name.startswith("dtsflow.volume")
    )
    logging.basicConfig(handlers=[console])
    logging.getLogger("dtsflow").setLevel(logging.INFO)


def _dispatch(words: list[str]) -> int:
    if words and words[0] == "--version":
        print(__version__)
        return 0
    if not words or words[0] in ("-h", "--help"):
        name, rest = "overview", words[1:]
    elif words[0] in COMMANDS:
        name, rest = words[0], words[1:]
    else:
        name, rest = "run", words
    if name == "run" and {"-m", "--multirun"} & set(rest):
        name = "multirun"
    status: int = import_module(f"dtsflow.cli.{name.replace('-', '_')}").main(rest)
    return status

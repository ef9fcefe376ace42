"""The command `dtsflow`: which command, and how errors end."""

import io
import logging
import os
import sys
from collections.abc import Callable, Sequence

from dtsflow.cli import doctor, inspect, overview, pack, plan, run, synth
from dtsflow.cli.status import FAILED, INTERRUPTED, WRONG_USE
from dtsflow.errors import ConfigError, DtsflowError, PlanError

Command = Callable[[list[str]], int]

COMMANDS: dict[str, tuple[Command, str]] = {
    "run": (run.main, "stream batches as configured (the default: dtsflow +experiment=NAME)"),
    "plan": (plan.main, "print what a run would do, and stop: order, graph, memory"),
    "pack": (pack.main, "pack class folders of images into a DTS volume"),
    "inspect": (inspect.main, "show what a volume holds"),
    "synth": (synth.main, "make class folders of photo-like JPEGs to try things on"),
    "doctor": (doctor.main, "check libraries, memory and CPUs, and say what to do"),
}


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
        print(f"dtsflow: {error}", file=sys.stderr)
        return WRONG_USE if isinstance(error, ConfigError | PlanError) else FAILED
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
    if not words or words[0] in ("-h", "--help"):
        return overview.main({name: about for name, (_, about) in COMMANDS.items()})
    if words[0] == "--version":
        return overview.version()
    if words[0] in COMMANDS:
        command, _ = COMMANDS[words[0]]
        return command(words[1:])
    return run.main(words)

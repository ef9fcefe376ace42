"""The command `dtsflow`: it chooses the subcommand, and decides how errors end.

The table of commands is here, with the line that `dtsflow` alone prints of each.
"""

import io
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from dtsflow._version import __version__
from dtsflow.cli.terminal import FAILED, INTERRUPTED, WRONG_USE
from dtsflow.config.compose import config_folders
from dtsflow.errors import CommonError, ConfigError, DtsflowError, PlanError

# A command is the module of its name in this package; it is imported when it is asked
# for, since all of them together take half a second.
COMMANDS = {
    "run": "stream batches as configured (the default: dtsflow +experiment=NAME)",
    "report": "compare finished runs, or the jobs of a sweep: table, CSV, plot",
    "plan": "print what a run would do, and stop: order, graph, memory",
    "pack": "pack images into DTS volumes: folders, tars, volumes, MNIST, CIFAR",
    "verify": "check volumes: header, index, blocks, checksums; name every damage",
    "repair": "mend damaged blocks or headers from sources or a good copy",
    "export": "write a volume's images back as class folders",
    "inspect": "show what a volume holds",
    "synth": "make class folders of photo-like JPEGs to try things on",
    "bench": "time operations, native and reference, and draw what they do",
    "plugins": "list installed plugins, and what a configuration may name of them",
    "new-plugin": "write a plugin of your own to begin with: a project with tests",
    "doctor": "check libraries, memory and CPUs, and say what to do",
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
        return overview()
    if words[0] in COMMANDS:
        name, rest = words[0], words[1:]
    else:
        name, rest = "run", words
    if name == "run" and {"-m", "--multirun"} & set(rest):
        name = "multirun"
    status: int = import_module(f"dtsflow.cli.{name.replace('-', '_')}").main(rest)
    return status


def overview() -> int:
    """Print commands, experiments and groups."""
    print(f"dtsflow {__version__}: DTS volumes to NHWC batches\n")
    print("usage: dtsflow [COMMAND] [KEY=VALUE ...] [--multirun] [--config-dir DIR]\n\ncommands")
    for name, what in COMMANDS.items():
        print(f"  {name:<11}{what}")
    folders = config_folders()
    print("\nexperiments (dtsflow +experiment=NAME)")
    for name, what in _options(folders, "experiment").items():
        print(f"  {name:<16}{what}")
    print("\ngroups (GROUP=OPTION, or GROUP.KEY=VALUE)")
    for group in _groups(folders):
        print(f"  {group:<10}{', '.join(_options(folders, group))}")
    print("\ntry\n  dtsflow +experiment=quickstart\n  dtsflow plan +experiment=quickstart")
    return 0


def _groups(folders: list[Path]) -> list[str]:
    names = {entry.name for folder in folders for entry in folder.iterdir() if entry.is_dir()}
    return sorted(name for name in names - {"experiment"} if not name.startswith(("_", ".")))


def _options(folders: list[Path], group: str) -> dict[str, str]:
    """Options of a group with the first comment line of each."""
    found: dict[str, str] = {}
    for folder in folders:
        for file in sorted((folder / group).glob("*.yaml")):
            found.setdefault(file.stem, _first_comment(file))
    return dict(sorted(found.items()))


def _first_comment(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    comments = (line[1:].strip() for line in lines if line.startswith("#"))
    return next((line for line in comments if not line.startswith("@package")), "")

"""`dtsflow` alone: what it can do here."""

from pathlib import Path

from dtsflow import __version__
from dtsflow.cli.commands import COMMANDS
from dtsflow.compose import config_folders


def main(_words: list[str]) -> int:
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

"""`dtsflow repair`: a damaged volume made right in place."""

import argparse
from pathlib import Path

from dtsflow.cli.terminal import FAILED
from dtsflow.cli.verify import show
from dtsflow.volume.repairing.repair import Repaired, repair


def main(words: list[str]) -> int:
    """Mend what `words` name; 1 if anything is still wrong."""
    parser = argparse.ArgumentParser(
        prog="dtsflow repair",
        description="Mend a damaged volume in place, with bytes that are proven to be right.",
    )
    parser.add_argument("volume", type=Path, metavar="VOLUME", help="the .dts file to mend")
    parser.add_argument(
        "--from",
        type=Path,
        dest="source",
        metavar="COPY_OR_SOURCES",
        help="a good copy (or its folder), or the folder that was packed",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    asked = parser.parse_args(words)
    good, sources = _parted(asked.volume, asked.source)
    repaired = repair(asked.volume, good=good, sources=sources, dry_run=asked.dry_run)
    _show(repaired, dry_run=asked.dry_run)
    is_mended = not repaired.left and (asked.dry_run or repaired.report.is_clean)
    return 0 if is_mended else FAILED


def _parted(volume: Path, source: Path | None) -> tuple[Path | None, Path | None]:
    """Return the copy or the sources that were given, whichever it is."""
    if source is None or not source.is_dir():
        return source, None
    copy = source / volume.name
    return (copy, None) if copy.is_file() else (None, source)


def _show(repaired: Repaired, *, dry_run: bool) -> None:
    for what in repaired.done:
        print(f"{'would mend' if dry_run else 'mended'}: {what}")
    for what in repaired.left:
        print(f"not mended: {what}")
    show(repaired.report)

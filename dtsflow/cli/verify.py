"""`dtsflow verify`: name every damage of volumes."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from threading import local

from dtsflow.cli.launched import launched
from dtsflow.cli.terminal import FAILED, Progress, counted, printable
from dtsflow.decode.auto import Auto
from dtsflow.ranks.group import Group
from dtsflow.volume.verifying.report import Report
from dtsflow.volume.verifying.verify import verify


def main(words: list[str]) -> int:
    """Check what `words` name; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        prog="dtsflow verify",
        description="Check every byte of volumes: header, index, blocks, checksums.",
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a .dts file, a folder of them, or a glob"
    )
    parser.add_argument("--decode", action="store_true", help="decode every image as well")
    parser.add_argument("--workers", type=_count, help="threads (one per CPU)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(words)
    with launched(lambda: Path("verify")) as group:
        report = _verify(asked, group)
    if group.rank.index == 0:
        if asked.json:
            print(json.dumps(report.facts(), indent=2))
        else:
            show(report)
    return 0 if report.is_clean else FAILED


def _verify(asked: argparse.Namespace, group: Group) -> Report:
    decode = decoding() if asked.decode else None
    if asked.json or group.rank.index:
        return verify(asked.paths, decode=decode, workers=asked.workers, group=group)
    title = "verify" if group.is_alone else f"verify (rank 0 of {group.rank.size})"
    with Progress(title, unit="blocks") as progress:
        return verify(
            asked.paths,
            decode=decode,
            workers=asked.workers,
            progress=lambda done, total: progress.show(done, images=1, total=total),
            group=group,
        )


def decoding() -> Callable[[memoryview], None]:
    """Return a call that decodes one image and drops it; a decoder for each thread."""
    own = local()

    def decode(data: memoryview) -> None:
        if not hasattr(own, "decoder"):
            own.decoder = Auto().start()
        own.decoder.decode(data)

    return decode


def show(report: Report) -> None:
    """Print each problem on its line, then the sum."""
    for note in report.notes:
        print(printable(f"note: {note}"))
    for problem in report.problems:
        print(printable(str(problem)))
    found = len(report.problems)
    verdict = "nothing is wrong" if report.is_clean else counted(found, "problem")
    print(
        f"{counted(report.files, 'file')}, {counted(report.blocks, 'block')}, "
        f"{counted(report.samples, 'sample')}: {verdict}"
    )


def _count(word: str) -> int:
    count = int(word)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} threads do nothing; give 1 or more")
    return count

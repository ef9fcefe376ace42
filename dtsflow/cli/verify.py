"""`dtsflow verify`: name every damage of volumes."""

import argparse
import json
from collections.abc import Callable
from threading import local
from typing import Any

from dtsflow.cli.counted import counted
from dtsflow.cli.printable import printable
from dtsflow.cli.progress import Progress
from dtsflow.cli.status import FAILED
from dtsflow.decode.auto import Auto
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
    decode = decoding() if asked.decode else None
    if asked.json:
        report = verify(asked.paths, decode=decode, workers=asked.workers)
        print(json.dumps(facts(report), indent=2))
    else:
        with Progress("verify", unit="blocks") as progress:
            report = verify(
                asked.paths,
                decode=decode,
                workers=asked.workers,
                progress=lambda done, total: progress.show(done, images=1, total=total),
            )
        show(report)
    return 0 if report.is_clean else FAILED


def decoding() -> Callable[[memoryview], None]:
    """A call that decodes one image and forgets it, with a decoder for each thread."""
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


def facts(report: Report) -> dict[str, Any]:
    """The report as plain JSON values."""
    return {
        "files": report.files,
        "blocks": report.blocks,
        "samples": report.samples,
        "problems": [
            {
                "path": str(one.path),
                "part": one.part,
                "block": one.block,
                "sample": one.sample,
                "what": one.what,
            }
            for one in report.problems
        ],
        "notes": list(report.notes),
    }


def _count(word: str) -> int:
    count = int(word)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} threads do nothing; give 1 or more")
    return count

"""`dtsflow export`: a volume's images back to class folders."""

import argparse
from pathlib import Path

from dtsflow.cli.progress import Progress
from dtsflow.volume.exporting import export


def main(words: list[str]) -> int:
    """Write the images of the volumes that `words` name."""
    parser = argparse.ArgumentParser(
        prog="dtsflow export",
        description="Write a volume's images back as class folders, bytes unchanged.",
    )
    parser.add_argument("source", metavar="SRC", help="a .dts file, a folder of them, or a glob")
    parser.add_argument("folder", type=Path, metavar="DST", help="the folder to make")
    parser.add_argument("--workers", type=int, help="threads (as many as CPUs, up to 8)")
    asked = parser.parse_args(words)
    with Progress("export") as progress:
        shown = 0

        def show(done: int, total: int) -> None:
            nonlocal shown
            progress.show(done, images=done - shown, total=total)
            shown = done

        written = export(asked.source, asked.folder, workers=asked.workers, progress=show)
    print(f"{written.images:,} images, {written.classes:,} classes: {written.folder}")
    return 0

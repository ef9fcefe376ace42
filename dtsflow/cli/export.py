"""`dtsflow export`: a volume's images back to class folders, or to shards."""

import argparse
from pathlib import Path

from dtsflow.cli.terminal import Progress, counted
from dtsflow.volume.exporting.export import SHARD_SAMPLES, export


def main(words: list[str]) -> int:
    """Write the images of the volumes that `words` name."""
    parser = argparse.ArgumentParser(
        prog="dtsflow export",
        description="Write a volume's images back, bytes unchanged: as class folders, or as "
        "WebDataset shards.",
    )
    parser.add_argument("source", metavar="SRC", help="a .dts file, a folder of them, or a glob")
    parser.add_argument("folder", type=Path, metavar="DST", help="the folder to make")
    parser.add_argument(
        "--to", choices=("folder", "webdataset"), default="folder", help="what to write (folder)"
    )
    parser.add_argument(
        "--shard-samples",
        type=int,
        default=SHARD_SAMPLES,
        metavar="N",
        help=f"samples of a shard ({SHARD_SAMPLES:,})",
    )
    parser.add_argument("--workers", type=int, help="threads (as many as CPUs, up to 8)")
    asked = parser.parse_args(words)
    with Progress("export") as progress:
        shown = 0

        def show(done: int, total: int) -> None:
            nonlocal shown
            progress.show(done, images=done - shown, total=total)
            shown = done

        written = export(
            asked.source,
            asked.folder,
            to=asked.to,
            shard_samples=asked.shard_samples,
            workers=asked.workers,
            progress=show,
        )
    shards = f", {counted(written.shards, 'shard')}" if written.shards else ""
    print(f"{written.images:,} images, {written.classes:,} classes{shards}: {written.folder}")
    return 0

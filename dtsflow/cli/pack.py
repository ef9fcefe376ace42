"""`dtsflow pack`: class folders to a DTS volume."""

import argparse
from pathlib import Path

from dtsflow.cli.progress import Progress
from dtsflow.memory.drawing import human_bytes
from dtsflow.volume import pack_folder


def main(words: list[str]) -> int:
    """Pack what `words` name; 0 also when single images were rejected."""
    parser = argparse.ArgumentParser(
        prog="dtsflow pack",
        description="Pack class folders of images into one DTS volume, bytes unchanged.",
    )
    parser.add_argument("source", type=Path, metavar="SRC", help="a folder of class folders")
    parser.add_argument("destination", type=Path, metavar="DST_FOLDER", help="gets the volume")
    parser.add_argument("--split", required=True, choices=("train", "val", "test"))
    parser.add_argument("--level", type=int, choices=(0,), default=0, help="0: bytes unchanged")
    parser.add_argument("--name", help="data set's name in the file name (SRC's name)")
    asked = parser.parse_args(words)
    with Progress("pack") as progress:
        packed = pack_folder(
            asked.source,
            asked.destination,
            split=asked.split,
            level=asked.level,
            name=asked.name,
            progress=lambda done, total: progress.show(done, images=1, total=total),
        )
    print(
        f"{packed.images:,} images, {packed.classes:,} classes, {packed.blocks:,} blocks, "
        f"{human_bytes(packed.bytes)}: {packed.path}"
    )
    if packed.rejects:
        print(f"{packed.rejects:,} files rejected, see {packed.path}.rejects.jsonl")
    return 0

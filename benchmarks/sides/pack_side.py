"""Packing a folder of images, or the plain work that it is measured against."""

import io
import os
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import PIL
from PIL import Image
from timing import job, timed

from dtsflow.volume import Encoding, Packing, pack

_SHORT, _LONG, _BOUNDARY, _QUALITY = 400, 600, 440, 80  # of level 3


def main() -> None:
    """Time whole passes; what a pass wrote is removed before the next, untimed."""
    asked = job()
    source, target = Path(asked.data), Path(asked.target)
    work, about = WORK[asked.what]
    shutil.rmtree(target, ignore_errors=True)
    passes = iter(range(1 + asked.passes))

    def one_pass() -> int:
        return work(source, target / str(next(passes)), asked.level)

    timed(one_pass, asked.passes, about)
    shutil.rmtree(target)


def copy(source: Path, target: Path, _level: int) -> int:
    """`cp -r`, then fsync of every file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-r", source, target], check=True)
    files = [path for path in target.rglob("*") if path.is_file()]
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return len(files)


def pack_all(source: Path, target: Path, level: int) -> int:
    """The packer, which ends with an fsync too."""
    packing = Packing(split="train", encoding=Encoding(level=level))  # type: ignore[arg-type]
    return pack(source, target, packing).images


def pillow_loop(source: Path, target: Path, _level: int) -> int:
    """Level 3's arithmetic in one process, one image after the other, into one file."""
    target.mkdir(parents=True)
    images = 0
    with (target / "images").open("wb") as file:
        for path in sorted(source.rglob("*.JPEG")):
            file.write(_encode(path.read_bytes()))
            images += 1
        file.flush()
        os.fsync(file.fileno())
    return images


def _encode(data: bytes) -> bytes:
    image = Image.open(io.BytesIO(data))
    side = min(image.size)
    if side > _BOUNDARY:
        width, height = (length * _SHORT // side for length in image.size)
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    width, height = image.size
    most = (_LONG, _SHORT) if width > height else (_SHORT, _LONG)
    kept = min(width, most[0]), min(height, most[1])
    if kept != image.size:
        left, top = (width - kept[0]) // 2, (height - kept[1]) // 2
        image = image.crop((left, top, left + kept[0], top + kept[1]))
    stored = io.BytesIO()
    image.save(stored, "JPEG", quality=_QUALITY)
    return stored.getvalue()


_PILLOW = f"Pillow {PIL.__version__}"
WORK: dict[str, tuple[Callable[[Path, Path, int], int], str]] = {
    "copy": (copy, "coreutils"),
    "pack": (pack_all, f"dtsflow {version('dtsflow')}, {_PILLOW}"),
    "loop": (pillow_loop, _PILLOW),
}

if __name__ == "__main__":
    main()

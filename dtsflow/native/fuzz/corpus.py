"""Write seeds for the fuzz targets: corpus.py OUT fills OUT/probe, OUT/chunk, OUT/draw.

A seed of `fuzz_probe` is a JPEG. One of `fuzz_chunk` is a sample and, behind it, the
bytes that choose the program. One of `fuzz_draw` is any bytes. All are made here, the
same ones every time.
"""

import io
import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

CHOICES = 288  # bytes; the target `chunk` draws fewer than these
DRAW_CHOICES = 512  # bytes; the same of `draw`
SIZES = ((1, 1), (2, 3), (5, 5), (8, 8), (17, 9), (33, 40), (64, 64))
SOI, EOI, SOS = b"\xff\xd8", b"\xff\xd9", b"\xff\xda"


def main(out: Path) -> None:
    """Fill `out`."""
    jpegs = dict(seeds(random.Random(0)))
    write(out / "probe", jpegs)
    write(out / "chunk", dict(with_choices(jpegs, random.Random(1))))
    rng = random.Random(2)
    write(out / "draw", {str(number): rng.randbytes(DRAW_CHOICES) for number in range(64)})


def write(folder: Path, seeds: dict[str, bytes]) -> None:
    """Write one file a seed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in seeds.items():
        (folder / name).write_bytes(seed)


def with_choices(jpegs: dict[str, bytes], rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield samples, each with the plainest program and with some drawn ones."""
    samples = jpegs | {f"pixels_{size}": rng.randbytes(size) for size in (0, 1, 100, 3072)}
    for name, sample in samples.items():
        yield f"{name}_plain", sample + bytes(CHOICES)
        for turn in range(3):
            yield f"{name}_{turn}", sample + rng.randbytes(CHOICES)


def seeds(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield JPEGs of every kind that is decoded, or handed on, or refused."""
    for (width, height), subsampling in itertools.product(SIZES, ("4:4:4", "4:2:2", "4:2:0")):
        name = f"{width}x{height}_{subsampling.replace(':', '')}"
        yield name, jpeg(rng, "RGB", (width, height), subsampling=subsampling)
    for width, height in SIZES:
        yield f"{width}x{height}_gray", jpeg(rng, "L", (width, height))
        progressive = jpeg(rng, "RGB", (width, height), progressive=True)
        yield f"{width}x{height}_progressive", progressive
        for kept in (1, 3):
            yield f"{width}x{height}_progressive_{kept}", first_scans(progressive, kept)
    yield from special(rng)


def special(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield one of each kind."""
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation
    good = jpeg(rng, "RGB", (40, 24), subsampling="4:2:0", optimize=True)
    yield "exif", jpeg(rng, "RGB", (24, 16), exif=exif)
    yield "restarts", jpeg(rng, "RGB", (48, 48), restart_marker_blocks=2)
    yield "restarts_wide", jpeg(rng, "RGB", (96, 48), subsampling="4:2:0", restart_marker_blocks=2)
    yield "restarts_gray", jpeg(rng, "L", (96, 24), restart_marker_blocks=3)
    yield "restart_rows", jpeg(rng, "RGB", (48, 48), progressive=True, restart_marker_rows=1)
    yield "cmyk", jpeg(rng, "CMYK", (16, 16))
    yield "rgb", jpeg(rng, "RGB", (24, 24), keep_rgb=True)
    yield "gray_progressive", jpeg(rng, "L", (40, 40), progressive=True)
    yield "cut_short", good[: len(good) // 2]
    yield "cut_short_ended", good[: len(good) // 2] + EOI
    yield "no_end", good[:-2]
    yield "garbage_behind", good + rng.randbytes(50)
    yield "flipped", flipped(good)
    yield "zeroed", good[: len(good) // 2] + bytes(len(good) - len(good) // 2)
    yield "no_huffman_tables", without(jpeg(rng, "RGB", (40, 24)), 0xC4)
    yield "no_quantisation_tables", without(good, 0xDB)
    yield "many_scans", repeated_scans(jpeg(rng, "L", (8, 8), progressive=True), 200)
    yield "arithmetic", framed(good, process=0xC9)
    yield "12_bit", framed(good, precision=12)
    yield "huge", framed(good, size=(65500, 65500))
    yield "wide", framed(good, size=(2, 65500))
    # Sampling that Pillow does not write, with as many blocks as there were before.
    even = jpeg(rng, "RGB", (32, 16), subsampling="4:2:2")
    yield "440", framed(even, size=(32, 16), luma=0x12)
    yield "411", framed(jpeg(rng, "RGB", (64, 32), subsampling="4:2:0"), luma=0x41)
    yield "gray_22", framed(jpeg(rng, "L", (40, 40)), luma=0x22)


def jpeg(rng: random.Random, mode: str, size: tuple[int, int], **options: Any) -> bytes:
    """Compress noise, half of the time smoothed."""
    width, height = size
    image = Image.frombytes(mode, size, rng.randbytes(width * height * len(mode)))
    if rng.random() < 0.5:  # noqa: PLR2004  # half
        image = image.resize((max(width // 8, 1), max(height // 8, 1))).resize(size)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=rng.choice((30, 75, 95)), **options)
    return stream.getvalue()


def segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield each segment's marker, start and stop, before the first scan's data."""
    at = 2
    while data[at + 1] != SOS[1]:
        stop = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        yield data[at + 1], at, stop
        at = stop


def without(data: bytes, marker: int) -> bytes:
    """Leave out the header's segments of one kind."""
    kept = bytearray(SOI)
    stop = 2
    for found, start, stop in segments(data):
        if found != marker:
            kept += data[start:stop]
    return bytes(kept) + data[stop:]


def framed(
    data: bytes,
    *,
    process: int | None = None,
    precision: int = 8,
    size: tuple[int, int] | None = None,
    luma: int | None = None,
) -> bytes:
    """Change what the frame header says; `size` is height and width."""
    changed = bytearray(data)
    for marker, start, _ in segments(data):
        if marker in (0xC0, 0xC1, 0xC2):
            changed[start + 1] = process or marker
            changed[start + 4] = precision
            if size:
                changed[start + 5 : start + 9] = b"".join(side.to_bytes(2, "big") for side in size)
            changed[start + 11] = luma or data[start + 11]
    return bytes(changed)


def first_scans(data: bytes, count: int) -> bytes:
    """Keep the header and the first scans, and end there."""
    parts = data.split(SOS)
    return SOS.join(parts[: count + 1]).removesuffix(EOI) + EOI


def repeated_scans(data: bytes, times: int) -> bytes:
    """Repeat the first scan."""
    head, scan, *rest = data.split(SOS)
    return SOS.join([head, *[scan] * times, *rest])


def flipped(data: bytes) -> bytes:
    """Change bits of the last bytes before the end."""
    changed = bytearray(data)
    for place in range(len(data) - 40, len(data) - 2, 7):
        changed[place] ^= 0x10
    return bytes(changed)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

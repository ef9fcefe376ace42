"""Which images can be packed, and why the others cannot."""

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from dtsflow.volume.format import aligned
from dtsflow.volume.image_tree import NO_CLASS, SourceImage

# Only what is sniffed and decoded in this process; Pillow hands EPS to another program.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
END_OF_IMAGE = b"\xff\xd9"  # without it no run would decode the JPEG
_THREADS = 8  # opening files waits for the disk


@dataclass(frozen=True, slots=True)
class Accepted:
    """An image that can be packed, with its bytes on disk and its pixels."""

    image: SourceImage
    size: int
    area: int


@dataclass(frozen=True, slots=True)
class Reject:
    """An image that is left out, by its name below the source folder."""

    name: str
    reason: str


def vet(
    images: Sequence[SourceImage], capacity: int, progress: Callable[[int, int], None]
) -> tuple[list[Accepted], list[Reject]]:
    """Open every image's header and part the good from the bad, each in order.

    `capacity` is the largest sample that a block takes; `progress` gets done and all.
    """
    accepted: list[Accepted] = []
    rejects: list[Reject] = []
    with warnings.catch_warnings(), ThreadPoolExecutor(_THREADS) as pool:
        # Large images are wanted; Pillow refuses the absurd ones by itself.
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        for done, verdict in enumerate(pool.map(partial(_vet_one, capacity), images), 1):
            if isinstance(verdict, Accepted):
                accepted.append(verdict)
            else:
                rejects.append(verdict)
            progress(done, len(images))
    return accepted, rejects


def write_rejects(path: Path, rejects: Iterable[Reject]) -> None:
    """Write one JSON object a line: the name and the reason."""
    lines = (json.dumps(asdict(reject)) + "\n" for reject in rejects)
    path.write_text("".join(lines), encoding="ascii")


def _vet_one(capacity: int, image: SourceImage) -> Accepted | Reject:
    try:
        return _measure(capacity, image)
    except UnidentifiedImageError:
        reason = "not an image that can be read"
    except (OSError, Image.DecompressionBombError) as error:
        reason = str(getattr(error, "strerror", None) or error)
    except (ArithmeticError, EOFError, SyntaxError, TypeError, ValueError) as error:
        # Pillow lets these through from some formats' readers.
        reason = f"not an image that can be read: {error}"
    return Reject(image.name, reason)


def _measure(capacity: int, image: SourceImage) -> Accepted | Reject:
    if image.label == NO_CLASS:
        return Reject(image.name, "lies in no class folder")
    size = image.path.stat().st_size
    if size == 0:
        return Reject(image.name, "the file is empty")
    if aligned(size) > capacity:
        return Reject(image.name, f"{size} bytes, a block takes {capacity}")
    with Image.open(image.path, formats=FORMATS) as opened:
        width, height = opened.size
        is_jpeg = opened.format == "JPEG"
    if is_jpeg and END_OF_IMAGE not in image.path.read_bytes():
        return Reject(image.name, "a JPEG without an end-of-image marker: it was cut short")
    return Accepted(image, size, width * height)

"""The idx files that MNIST and sets like it are published in."""

from typing import IO

from dtsflow.errors import PackError
from dtsflow.volume.format import Kind
from dtsflow.volume.small import SMALL_SETS
from dtsflow.volume.small_header import most_samples
from dtsflow.volume.source.declared import Bytes, check_count, check_labels, finish, take

LABEL_MAGIC, IMAGE_MAGIC = 2049, 2051
_WORD_BYTES = 4


def read_idx_labels(stream: IO[bytes], where: str) -> Bytes:
    """All labels of an idx file; `where` names it in messages.

    Raises:
        PackError: Another magic, cut short, bytes left over, no label, or a wrong one.
    """
    layout = SMALL_SETS[Kind.MNIST]
    (samples,) = _words(stream, LABEL_MAGIC, 1, where)
    check_count(samples, most_samples(Kind.MNIST), where)
    labels = take(stream, samples, where)
    finish(stream, samples + 2 * _WORD_BYTES, where)
    check_labels(labels, len(layout.class_names), where)
    return labels


def read_idx_images(stream: IO[bytes], samples: int, where: str) -> Bytes:
    """All images of an idx file, one a row, whose labels are `samples`.

    Raises:
        PackError: Another magic, number or size of images, cut short, or bytes left
            over.
    """
    layout = SMALL_SETS[Kind.MNIST]
    count, height, width = _words(stream, IMAGE_MAGIC, 3, where)
    if count != samples:
        raise PackError(
            f"{where} counts {count} images, the labels beside it are {samples}. One of the "
            "two files belongs to another set: get both again."
        )
    if (height, width) != (layout.height, layout.width):
        raise PackError(
            f"{where} has images of {height} by {width}, MNIST's are {layout.height} by "
            f"{layout.width}. Write them as PNG files in class folders and pack those."
        )
    pixels = take(stream, samples * layout.sample_bytes, where)
    finish(stream, len(pixels) + 4 * _WORD_BYTES, where)
    return pixels.reshape(samples, layout.sample_bytes)


def _words(stream: IO[bytes], magic: int, count: int, where: str) -> list[int]:
    found, *words = take(stream, (1 + count) * _WORD_BYTES, where).view(">u4").tolist()
    if found != magic:
        raise PackError(
            f"{where} starts with the number {found}, an idx file of this kind with {magic}. "
            "It is another file under this name, or damaged: get it again."
        )
    return [int(word) for word in words]

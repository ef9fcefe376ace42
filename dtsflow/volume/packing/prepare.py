"""Preparing an image: from the source's bytes to what is stored and recorded of it.

`Sums` gives the mean and standard deviation of a data set, from a sample of its images.
"""

import errno
import hashlib
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from dtsflow.errors import PackError
from dtsflow.volume.format.header import aligned
from dtsflow.volume.packing.encode import (
    Encoded,
    Unusable,
    add_restarts,
    encode,
    measure,
    measure_stored,
    rgb_histogram,
    shrink,
)
from dtsflow.volume.packing.options import Recipe
from dtsflow.volume.source.base import NO_CLASS, Reject, SourceImage
from dtsflow.volume.source.select import mixing_number

_FEWEST = 64  # images, or all of a smaller set
_SHARE = 1 / 32  # of a larger one: decoding all would cost more than packing
_LEVELS = 256
_WHITE = 255
_DIGITS = 4  # decoders differ in the last bit of a pixel, and this need not show


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over pixels, whole numbers: the order of adding does not matter."""

    images: int = 0
    pixels: int = 0
    totals: tuple[int, int, int] = (0, 0, 0)
    squares: tuple[int, int, int] = (0, 0, 0)

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.images + other.images,
            self.pixels + other.pixels,
            _add(self.totals, other.totals),
            _add(self.squares, other.squares),
        )

    @property
    def mean(self) -> tuple[float, ...]:
        """Return the means of red, green and blue, 0 to 1; empty without images."""
        if not self.pixels:
            return ()
        return tuple(round(total / self.pixels / _WHITE, _DIGITS) for total in self.totals)

    @property
    def std(self) -> tuple[float, ...]:
        """Return the deviation of each channel, 0 to 1; empty without images."""
        if not self.pixels:
            return ()
        sums = zip(self.totals, self.squares, strict=True)
        variances = [(self.pixels * square - total**2) / self.pixels**2 for total, square in sums]
        return tuple(round(variance**0.5 / _WHITE, _DIGITS) for variance in variances)


def sums_of(histogram: Sequence[int]) -> Sums:
    """Sum up one image from its RGB histogram, 256 entries a channel."""
    counts = np.array(histogram, np.int64).reshape(3, _LEVELS)
    values = np.arange(_LEVELS, dtype=np.int64)
    totals, squares = counts @ values, counts @ values**2
    return Sums(1, int(counts[0].sum()), _three(totals.tolist()), _three(squares.tolist()))


def is_sampled(name: str, images: int) -> bool:
    """Tell whether the image `name` is in the sample of a set of `images` images.

    It depends on the name alone, so that the sample does not depend on the order.
    """
    share = max(_FEWEST / images, _SHARE)
    return mixing_number(name) < share * 2**64


def _add(left: tuple[int, int, int], right: tuple[int, int, int]) -> tuple[int, int, int]:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def _three(values: list[int]) -> tuple[int, int, int]:
    red, green, blue = values
    return red, green, blue


_AHEAD_BYTES = 1 << 26  # of sources, read before their turn
_LEAST_BYTES = 1 << 16  # that one counts for: a small source may become a larger image
# Errors of the machine or the network; taken for the image's own, they would lose it.
_PASSING = frozenset(
    getattr(errno, name)
    for name in (
        *("EMFILE", "ENFILE", "ENOMEM", "ENOENT", "ENOTDIR", "ENODEV", "ENXIO", "ESTALE"),
        *("ENOTCONN", "ETIMEDOUT", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH"),
    )
    if hasattr(errno, name)
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An image to pack, with what vetting found; zeros where nothing was vetted.

    `size` is what will be stored.
    """

    image: SourceImage
    size: int = 0
    width: int = 0
    height: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """An image as it will be stored, and what is recorded of it."""

    image: SourceImage
    encoded: Encoded
    sha256: str
    crc32: int
    sums: Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparer:
    """The maker of the stored images: the same bytes in any thread, in any order.

    `recipe` is None where pixels stay unchanged; `reencodes` says that an image too
    large for a block (`capacity` bytes) is encoded again, with less quality; `restarts`
    gives JPEGs restart markers. `sampled_from` is the number of images of the set; 0
    takes no statistics.
    """

    recipe: Recipe | None
    capacity: int
    reencodes: bool = False
    sampled_from: int = 0
    restarts: bool = False

    @property
    def keeps_bytes(self) -> bool:
        """Tell whether a source's own bytes are stored, so that sizes are known."""
        return self.recipe is None and not self.restarts

    def vet(self, image: SourceImage) -> Candidate | Reject:
        """Look at an image's header, and at no more unless it does not fit a block.

        Raises:
            PackError: It cannot be read, and the image is not the reason.
        """
        stored = image.stored
        try:
            _check_class(image)
            width, height = measure_stored(stored)
            size = stored.size
            if aligned(size) > self.capacity:
                encoded = self._fit(Encoded(stored.read(), width, height))
                size, width, height = len(encoded.data), encoded.width, encoded.height
        except (Unusable, OSError) as error:
            _raise_what_passes(image, error)
            return Reject(image.name, _reason(error))
        return Candidate(image, size, width, height)

    def prepare(self, candidate: Candidate) -> Prepared | Reject:
        """Read, encode and digest one image.

        Raises:
            PackError: It was vetted, and can no longer be read; or it cannot be read,
                and the image is not the reason.
        """
        image = candidate.image
        try:
            _check_class(image)
            data = image.stored.read()
            encoded = self.make(data, (candidate.width, candidate.height))
        except (Unusable, OSError) as error:
            _raise_what_passes(image, error)
            if candidate.size:
                raise PackError(
                    f"{image.stored.path} could be read before, now: {_reason(error)}."
                ) from error
            return Reject(image.name, _reason(error))
        digest = hashlib.sha256(data).hexdigest()
        return Prepared(
            image, encoded, digest, zlib.crc32(encoded.data), self._sums(image, encoded)
        )

    def make(self, data: bytes, size: tuple[int, int] = (0, 0)) -> Encoded:
        """Make the stored image of a source's bytes; `size` is the image's, if known.

        Raises:
            Unusable: They are not an image, or it does not fit a block.
        """
        if self.recipe is not None:
            fitting = self._fit(encode(data, self.recipe))
        else:
            known = size if all(size) or self.keeps_bytes else measure(data)
            fitting = self._fit(Encoded(data, *known))
        if not self.restarts:
            return fitting
        with_markers = add_restarts(fitting.data)
        fits = aligned(len(with_markers)) <= self.capacity
        return replace(fitting, data=with_markers) if fits else fitting

    def _fit(self, encoded: Encoded) -> Encoded:
        if aligned(len(encoded.data)) <= self.capacity:
            return encoded
        if self.reencodes:
            return shrink(encoded.data, self.capacity)
        raise Unusable(f"{len(encoded.data)} bytes, a block takes {self.capacity}")

    def _sums(self, image: SourceImage, encoded: Encoded) -> Sums:
        if not (self.sampled_from and is_sampled(image.name, self.sampled_from)):
            return Sums()
        try:
            return sums_of(rgb_histogram(encoded.data))
        except Unusable:
            return Sums()  # its header is fine; `verify --decode` finds such images


def prepare_in_order(
    preparer: Preparer, candidates: Iterable[Candidate], pool: ThreadPoolExecutor
) -> Iterator[Prepared | Reject]:
    """Prepare all by the pool's threads, and give them in order.

    At most 64 MiB of sources are read ahead.
    """
    waiting: deque[tuple[int, Future[Prepared | Reject]]] = deque()
    held = 0
    try:
        for candidate in candidates:
            size = max(candidate.image.stored.size, _LEAST_BYTES)
            while waiting and held + size > _AHEAD_BYTES:
                done_size, done = waiting.popleft()
                held -= done_size
                yield done.result()
            waiting.append((size, pool.submit(preparer.prepare, candidate)))
            held += size
        while waiting:
            yield waiting.popleft()[1].result()
    finally:
        for _, left in waiting:
            left.cancel()


def _check_class(image: SourceImage) -> None:
    if image.label == NO_CLASS:
        raise Unusable(image.why_no_class)


def _raise_what_passes(image: SourceImage, error: Exception) -> None:
    if isinstance(error, OSError) and error.errno in _PASSING:
        raise PackError(
            f"{image.stored.path} was there and cannot be read now: {_reason(error)}. Nothing is "
            "wrong with the image itself: mend the cause, then go on with resume."
        ) from error


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)

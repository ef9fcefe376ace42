import errno
import hashlib
import io
import os
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dtsflow.errors import PackError
from dtsflow.testing import jpeg
from dtsflow.volume.format.header import aligned
from dtsflow.volume.packing.encode import encode, rgb_histogram, shrink
from dtsflow.volume.packing.options import Encoding
from dtsflow.volume.packing.prepare import (
    Candidate,
    Prepared,
    Preparer,
    Sums,
    prepare_in_order,
    sums_of,
)
from dtsflow.volume.source.base import NO_CLASS, Reject, SourceImage, Stored, whole_file

CAPACITY = 20_032
RECIPE = Encoding(level=3).recipe()
AS_IT_IS = Preparer(recipe=None, capacity=CAPACITY)
ENCODING = Preparer(recipe=RECIPE, capacity=CAPACITY)


def listed(path: Path, data: bytes, label: int = 0) -> SourceImage:
    path.write_bytes(data)
    return SourceImage(f"c/{path.name}", label, whole_file(str(path), path.stat()))


def missing(path: Path) -> SourceImage:
    return SourceImage(f"c/{path.name}", 0, Stored(str(path), 0, 5, 5, 0))


# Vetting.


def test_an_image_is_measured(tmp_path: Path) -> None:
    data = jpeg(40, 30)
    image = listed(tmp_path / "a.jpg", data)
    assert AS_IT_IS.vet(image) == Candidate(image, len(data), 40, 30)


def test_content_is_sniffed_not_believed(tmp_path: Path) -> None:
    assert isinstance(AS_IT_IS.vet(listed(tmp_path / "a.png", jpeg())), Candidate)
    assert AS_IT_IS.vet(listed(tmp_path / "a.jpg", b"no image at all")) == Reject(
        "c/a.jpg", "not an image that can be read"
    )


def test_files_without_a_usable_image_say_why(tmp_path: Path) -> None:
    for data, reason in [
        (b"", "the file is empty"),
        (jpeg()[:-2], "end-of-image"),
        (b"text", "not an image that can be read"),
    ]:
        image = listed(tmp_path / "a.jpg", data)
        for verdict in (AS_IT_IS.vet(image), ENCODING.prepare(Candidate(image))):
            assert isinstance(verdict, Reject)
            assert verdict.name == "c/a.jpg"
            assert reason in verdict.reason


def test_an_image_in_no_class_is_rejected_unread(tmp_path: Path) -> None:
    image = SourceImage("a.jpg", NO_CLASS, Stored(str(tmp_path / "gone"), 0, 5, 5, 0))
    expected = Reject("a.jpg", "lies in no class folder")
    assert AS_IT_IS.vet(image) == ENCODING.prepare(Candidate(image)) == expected


def test_a_file_that_cannot_be_opened_is_rejected_with_the_systems_reason(tmp_path: Path) -> None:
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    expected = Reject("c/loop.jpg", os.strerror(errno.ELOOP))
    image = missing(tmp_path / "loop.jpg")
    assert AS_IT_IS.vet(image) == ENCODING.prepare(Candidate(image)) == expected


def test_a_file_that_is_gone_since_it_was_listed_is_no_reject(tmp_path: Path) -> None:
    image = missing(tmp_path / "gone.jpg")
    why = r"gone\.jpg was there and cannot be read now: No such"
    with pytest.raises(PackError, match=why):
        AS_IT_IS.vet(image)
    with pytest.raises(PackError, match=why):
        ENCODING.prepare(Candidate(image))


def test_what_a_block_just_takes_is_packed_and_a_byte_more_is_not(tmp_path: Path) -> None:
    start = jpeg()
    data = start + bytes(CAPACITY - len(start) - 2) + b"\xff\xd9"
    assert len(data) == aligned(len(data)) == CAPACITY
    assert isinstance(AS_IT_IS.vet(listed(tmp_path / "a.jpg", data)), Candidate)
    assert AS_IT_IS.vet(listed(tmp_path / "b.jpg", data + b"\xd9")) == Reject(
        "c/b.jpg", f"{CAPACITY + 1} bytes, a block takes {CAPACITY}"
    )
    # The padding counts: of an odd capacity the last bytes are of no use.
    odd = Preparer(recipe=None, capacity=len(start))
    assert len(start) % 64
    assert isinstance(odd.vet(listed(tmp_path / "c.jpg", start)), Reject)


def png_of_noise() -> bytes:
    noise = np.random.default_rng(0).normal(128, 60, (170, 170)).clip(0, 255)
    file = io.BytesIO()
    Image.fromarray(noise.astype(np.uint8)).save(file, "PNG")
    assert len(file.getvalue()) > CAPACITY
    return file.getvalue()


LARGE_PNG = png_of_noise()


def test_an_oversized_image_is_encoded_again_where_that_is_asked_for(tmp_path: Path) -> None:
    data = LARGE_PNG
    image = listed(tmp_path / "a.png", data)
    preparer = Preparer(recipe=None, capacity=CAPACITY, reencodes=True)
    assert isinstance(AS_IT_IS.vet(image), Reject)
    candidate = preparer.vet(image)
    expected = shrink(data, CAPACITY)
    assert candidate == Candidate(image, len(expected.data), 170, 170)
    prepared = preparer.prepare(candidate)
    assert isinstance(prepared, Prepared)
    assert prepared.encoded == expected
    assert prepared.sha256 == hashlib.sha256(data).hexdigest()
    assert prepared.crc32 == zlib.crc32(expected.data)


def test_so_is_what_a_recipe_makes_too_large(tmp_path: Path) -> None:
    made = Encoding(level=1, quality=100).recipe()
    assert made is not None
    image = listed(tmp_path / "a.png", LARGE_PNG)
    rejecting, shrinking = (
        Preparer(recipe=made, capacity=CAPACITY, reencodes=value) for value in (False, True)
    )
    assert isinstance(rejecting.prepare(Candidate(image)), Reject)
    prepared = shrinking.prepare(Candidate(image))
    assert isinstance(prepared, Prepared)
    assert prepared.encoded == shrink(encode(LARGE_PNG, made).data, CAPACITY)


def test_what_no_quality_makes_small_enough_is_rejected(tmp_path: Path) -> None:
    preparer = Preparer(recipe=None, capacity=640, reencodes=True)
    verdict = preparer.vet(listed(tmp_path / "a.png", LARGE_PNG))
    assert isinstance(verdict, Reject)
    assert "does not fit a block (640 bytes) even at quality" in verdict.reason


# Preparing.


def test_unchanged_bytes_have_one_digest_and_the_vetted_size(tmp_path: Path) -> None:
    data = jpeg(40, 30)
    image = listed(tmp_path / "a.jpg", data)
    prepared = AS_IT_IS.prepare(Candidate(image, len(data), 40, 30))
    assert isinstance(prepared, Prepared)
    assert prepared.encoded.data == data
    assert (prepared.encoded.width, prepared.encoded.height) == (40, 30)
    assert prepared.sha256 == hashlib.sha256(data).hexdigest()
    assert prepared.crc32 == zlib.crc32(data)
    assert prepared.sums == Sums()


def test_an_encoded_image_has_the_digest_of_its_source(tmp_path: Path) -> None:
    assert RECIPE is not None
    data = jpeg(500, 450)
    prepared = ENCODING.prepare(Candidate(listed(tmp_path / "a.jpg", data)))
    assert isinstance(prepared, Prepared)
    assert prepared.encoded == encode(data, RECIPE)
    assert prepared.sha256 == hashlib.sha256(data).hexdigest()
    assert prepared.crc32 == zlib.crc32(prepared.encoded.data)


def test_statistics_are_of_what_is_stored(tmp_path: Path) -> None:
    data = jpeg(500, 450)
    preparer = Preparer(recipe=RECIPE, capacity=1 << 20, sampled_from=1)
    prepared = preparer.prepare(Candidate(listed(tmp_path / "a.jpg", data)))
    assert isinstance(prepared, Prepared)
    assert prepared.sums == sums_of(rgb_histogram(prepared.encoded.data))
    assert prepared.sums.pixels == prepared.encoded.width * prepared.encoded.height


def test_an_image_whose_pixels_are_damaged_is_kept_at_level_0_and_counts_nowhere(
    tmp_path: Path,
) -> None:
    damaged = LARGE_PNG[:5000]
    preparer = Preparer(recipe=None, capacity=CAPACITY, sampled_from=1)
    candidate = preparer.vet(listed(tmp_path / "a.png", damaged))
    assert isinstance(candidate, Candidate)
    prepared = preparer.prepare(candidate)
    assert isinstance(prepared, Prepared)
    assert prepared.encoded.data == damaged
    assert prepared.sums == Sums()
    assert isinstance(ENCODING.prepare(Candidate(candidate.image)), Reject)


@pytest.mark.parametrize("vetted", [False, True])
def test_a_source_that_changes_stops_the_pack(tmp_path: Path, *, vetted: bool) -> None:
    path = tmp_path / "a.jpg"
    image = listed(path, jpeg())
    candidate = AS_IT_IS.vet(image) if vetted else Candidate(image)
    assert isinstance(candidate, Candidate)
    path.write_bytes(jpeg() + b"\0")
    with pytest.raises(PackError, match=r"a\.jpg changed while it was packed"):
        (AS_IT_IS if vetted else ENCODING).prepare(candidate)


def test_a_vetted_source_that_is_gone_stops_the_pack(tmp_path: Path) -> None:
    image = listed(tmp_path / "a.jpg", jpeg())
    candidate = AS_IT_IS.vet(image)
    assert isinstance(candidate, Candidate)
    (tmp_path / "a.jpg").unlink()
    with pytest.raises(PackError, match=r"a\.jpg was there and cannot be read now: No such"):
        AS_IT_IS.prepare(candidate)


# Many at once.


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_whatever_the_threads_the_images_come_in_order(tmp_path: Path, threads: int) -> None:
    images = [
        Candidate(listed(tmp_path / f"{n}.jpg", b"" if n % 5 == 4 else jpeg(20 + n, seed=n)))
        for n in range(40)
    ]
    with ThreadPoolExecutor(threads) as pool:
        results = list(prepare_in_order(ENCODING, images, pool))
    assert results == [ENCODING.prepare(one) for one in images]
    assert sum(isinstance(one, Reject) for one in results) == 8


def test_nothing_to_prepare_gives_nothing() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert list(prepare_in_order(ENCODING, [], pool)) == []


class Counting(Preparer):
    """Prepares nothing, and counts what it was asked for."""

    def prepare(self, candidate: Candidate) -> Prepared | Reject:
        return Reject(candidate.image.name, "")


def asked_before_the_first(size: int) -> int:
    asked = 0

    def candidates() -> list[Candidate]:
        return [
            Candidate(SourceImage(f"{n}", 0, Stored("", 0, size, size, 0))) for n in range(5000)
        ]

    def counted(ones: list[Candidate]) -> Iterator[Candidate]:
        nonlocal asked
        for one in ones:
            asked += 1
            yield one

    with ThreadPoolExecutor(1) as pool:
        stream = prepare_in_order(
            Counting(recipe=None, capacity=1),
            counted(candidates()),
            pool,
        )
        next(stream)
        stream.close()  # type: ignore[attr-defined]  # it is a generator
    return asked


@pytest.mark.parametrize("size", [0, 100, 1 << 20, 1 << 26, 1 << 30])
def test_only_so_many_are_read_before_their_turn(size: int) -> None:
    # 64 MiB of sources; a tiny one may become a larger image, so it counts for 64 KiB.
    assert asked_before_the_first(size) == max(2, 1 + (1 << 26) // max(size, 1 << 16))


def test_after_an_error_what_waits_is_not_begun(tmp_path: Path) -> None:
    begun: list[str] = []
    seen = threading.Event()

    class Failing(Preparer):
        def prepare(self, candidate: Candidate) -> Prepared | Reject:
            begun.append(candidate.image.name)
            if len(begun) == 1:
                raise PackError("a source changed")
            assert seen.wait(30)
            return Reject(candidate.image.name, "")

    images = [Candidate(missing(tmp_path / f"{n}.jpg")) for n in range(50)]
    with ThreadPoolExecutor(1) as pool:
        stream = prepare_in_order(Failing(recipe=None, capacity=1), images, pool)
        with pytest.raises(PackError, match="a source changed"):
            next(stream)
        seen.set()
    assert len(begun) <= 2

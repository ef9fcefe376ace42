from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtsflow.errors import PackError
from dtsflow.volume.format.header import BLOCK_ROOM, aligned
from dtsflow.volume.packing.arrange import Share, plan_digest, recorded_options, share_out
from dtsflow.volume.packing.options import Encoding, Layout, Packing
from dtsflow.volume.packing.prepare import Candidate
from dtsflow.volume.packing.upstream import arrange_level0, shuffled
from dtsflow.volume.source.base import SourceImage, Stored
from dtsflow.volume.source.select import mixing_key

FOLDER = Path("out")
CAPACITY = BLOCK_ROOM[0]
CLASSES = ("a", "b")


def candidates(count: int, size: int = 1 << 20, name: str = "{}") -> list[Candidate]:
    """Images sorted by name, in three classes one after the other."""
    return [
        Candidate(
            SourceImage(f"{'abc'[n * 3 // count]}/{name.format(f'{n:06d}')}.jpeg", 0, stored),
            stored.size,
            1,
            1,
        )
        for n in range(count)
        for stored in [Stored("/s", n, size + 64 * n if size else 0, 10, 7)]
    ]


def unvetted(images: Sequence[Candidate]) -> list[Candidate]:
    return [Candidate(one.image) for one in images]


def packing(level: Any = 0, **layout: Any) -> Packing:
    return Packing(split="train", encoding=Encoding(level=level), layout=Layout(**layout))


def names(ones: Sequence[Candidate]) -> list[str]:
    return [one.image.name for one in ones]


def blocks(share: Share) -> list[list[Candidate]]:
    assert share.counts is not None
    ends = [sum(share.counts[: k + 1]) for k in range(len(share.counts))]
    return [
        list(share.candidates[end - count : end])
        for count, end in zip(share.counts, ends, strict=True)
    ]


def test_known_sizes_are_arranged_into_full_blocks() -> None:
    images = candidates(50)
    (share,) = share_out(images, packing(), "s", FOLDER)
    assert share.volume == FOLDER / "s.dts"
    assert sorted(names(share.candidates)) == names(images)
    assert share.counts is not None
    assert sum(share.counts) == 50
    for block in blocks(share):
        assert sum(aligned(one.size) for one in block) <= CAPACITY
    assert len(share.counts) == -(-sum(aligned(one.size) for one in images) // CAPACITY)


def test_inside_a_block_classes_are_mixed_and_large_images_are_not_in_front() -> None:
    (share,) = share_out(candidates(50), packing(), "s", FOLDER)
    for block in blocks(share):
        assert names(block) == sorted(names(block), key=mixing_key)
        assert len({name[0] for name in names(block)[:8]}) > 1


def test_sizes_that_are_not_known_are_cut_later() -> None:
    images = unvetted(candidates(20))
    (share,) = share_out(images, packing(2), "s", FOLDER)
    assert share.counts is None
    assert names(share.candidates) == sorted(names(images), key=mixing_key)


@pytest.mark.parametrize("volumes", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("level", [0, 2])
def test_volumes_have_every_image_once_and_equal_numbers(volumes: int, level: int) -> None:
    images = candidates(50) if level == 0 else unvetted(candidates(50))
    shares = share_out(images, packing(level, volumes=volumes), "s", FOLDER)
    assert len(shares) == volumes
    assert sorted(name for share in shares for name in names(share.candidates)) == names(images)
    numbers = {len(share.candidates) for share in shares}
    assert max(numbers) - min(numbers) <= 1
    if volumes < 10:
        assert all(len({name[0] for name in names(share.candidates)}) > 1 for share in shares)


def test_volumes_are_named_by_their_place_and_their_number() -> None:
    shares = share_out(candidates(12), packing(volumes=11), "s_train_lv0", FOLDER)
    assert shares[0].volume == FOLDER / "s_train_lv0-00001-of-00011.dts"
    assert shares[10].volume == FOLDER / "s_train_lv0-00011-of-00011.dts"


def test_fewer_images_than_volumes_are_refused() -> None:
    with pytest.raises(PackError, match="3 images do not fill 4 volumes"):
        share_out(candidates(3), packing(volumes=4), "s", FOLDER)


def test_a_block_takes_no_more_images_than_its_index() -> None:
    images = [replace(one, size=64) for one in candidates(700)]
    (share,) = share_out(images, packing(), "s", FOLDER)
    assert share.counts is not None
    assert max(share.counts) <= 340
    assert len(share.counts) == 3


def test_upstream_orders_by_file_name_and_arranges_in_its_way() -> None:
    images = candidates(60)
    for number, one in enumerate(images):  # file names that go across the folders
        name = f"{one.image.name[0]}/{number * 7 % 60:03d}.jpeg"
        images[number] = replace(one, image=replace(one.image, name=name))
    images.sort(key=lambda one: one.image.name)
    by_file = sorted(images, key=lambda one: one.image.name[2:])
    (share,) = share_out(images, packing(upstream=True, min_blocks=4), "s", FOLDER)
    expected = arrange_level0([one.size for one in by_file], 4)
    assert [names(block) for block in blocks(share)] == [
        [by_file[i].image.name for i in members] for members in expected
    ]
    (share,) = share_out(unvetted(images), packing(1, upstream=True), "s", FOLDER)
    assert share.counts is None
    assert names(share.candidates) == [by_file[i].image.name for i in shuffled(60)]


# The plan's digest.


def digest(shares: Sequence[Share], classes: Sequence[str] = CLASSES, **options: Any) -> str:
    return plan_digest(shares, classes, recorded_options(packing()) | options)


def shares_of(count: int = 20) -> tuple[Share, ...]:
    return share_out(candidates(count), packing(volumes=2), "s", FOLDER)


def changed(change: Callable[[Share], Share]) -> tuple[Share, ...]:
    first, second = shares_of()
    return first, change(second)


def with_image(**values: Any) -> Callable[[Share], Share]:
    def change(share: Share) -> Share:
        *others, last = share.candidates
        return replace(
            share, candidates=(*others, replace(last, image=replace(last.image, **values)))
        )

    return change


def with_stored(**values: Any) -> Callable[[Share], Share]:
    def change(share: Share) -> Share:
        stored = replace(share.candidates[-1].image.stored, **values)
        return with_image(stored=stored)(share)

    return change


def test_the_digest_is_of_the_plan_alone() -> None:
    assert digest(shares_of()) == digest(shares_of())
    assert len(digest(shares_of())) == 64


def test_the_sources_may_move_and_the_destination_too() -> None:
    moved = changed(with_stored(path="/elsewhere"))
    elsewhere = share_out(candidates(20), packing(volumes=2), "s", FOLDER / "other")
    assert digest(moved) == digest(elsewhere) == digest(shares_of())


@pytest.mark.parametrize(
    "shares",
    [
        shares_of(19),
        shares_of()[:1],
        shares_of()[::-1],
        changed(with_image(name="other")),
        changed(with_image(name="\udcff")),
        changed(with_image(label=1)),
        changed(with_stored(offset=99)),
        changed(with_stored(size=99)),
        changed(with_stored(mtime_ns=99)),
        changed(lambda share: replace(share, candidates=share.candidates[::-1])),
        changed(lambda share: replace(share, counts=None)),
        changed(lambda share: replace(share, counts=(4, 6))),
        changed(lambda share: replace(share, volume=FOLDER / "t.dts")),
    ],
    ids=iter(map(str, range(13))),
)
def test_whatever_of_the_shares_changes_the_digest_does(shares: tuple[Share, ...]) -> None:
    assert digest(shares) != digest(shares_of())


def test_so_it_does_with_the_classes_and_the_options() -> None:
    shares = shares_of()
    others = [
        digest(shares, ("b", "a")),
        digest(shares, ("a",)),
        digest(shares, split="val"),
        digest(shares, level=1),
        digest(shares, pillow="1.0"),
    ]
    assert len({digest(shares), *others}) == 6


def test_the_options_are_all_that_decides_the_bytes() -> None:
    encodings = [
        Encoding(level=0),
        Encoding(level=1),
        Encoding(level=2),
        Encoding(level=2, short=300),
        Encoding(level=2, long=700),
        Encoding(level=2, quality=70),
        Encoding(level=2, subsampling="4:4:4"),
    ]
    plain = [recorded_options(Packing(split="train", encoding=one)) for one in encodings]
    plain.append(recorded_options(Packing(split="val")))
    layouts: list[dict[str, Any]] = [
        {"volumes": 2},
        {"oversize": "reencode"},
        {"upstream": True},
        {"upstream": True, "min_blocks": 3},
    ]
    plain += [recorded_options(packing(**layout)) for layout in layouts]
    assert len({repr(one) for one in plain}) == len(plain)


def test_the_workers_and_the_resume_have_no_part_in_them() -> None:
    one = recorded_options(Packing(split="train", workers=1))
    assert one == recorded_options(Packing(split="train", workers=9, resume=True, name="x"))


def test_the_libraries_count_where_they_make_bytes() -> None:
    assert "pillow" not in recorded_options(packing())
    assert {"pillow", "libjpeg_turbo"} <= recorded_options(packing(1)).keys()
    # What is too large for a block is encoded at level 0 as well.
    assert {"pillow", "libjpeg_turbo"} <= recorded_options(packing(oversize="reencode")).keys()

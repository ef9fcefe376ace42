import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.volume.format.header import BLOCK_ROOM, aligned
from dtsflow.volume.packing.arrange import Cut, cut_as_planned, cut_next_fit, most_images
from dtsflow.volume.packing.encode import Encoded
from dtsflow.volume.packing.prepare import Prepared, Sums
from dtsflow.volume.source.base import Reject, SourceImage, Stored

NOWHERE = Stored("", 0, 0, 0, 0)
CAPACITY = BLOCK_ROOM[3]
PIECE = bytes(CAPACITY // 4)  # shared by all, so that a block costs nothing here


def image(number: int, size: int = 64) -> Prepared:
    encoded = Encoded(PIECE[:size], 1, 1)
    return Prepared(SourceImage(f"{number}", 0, NOWHERE), encoded, "", 0, Sums())


def reject(number: int) -> Reject:
    return Reject(f"{number}", "why not")


def names(cuts: list[Cut]) -> list[list[str]]:
    return [[one.image.name for one in cut.images] for cut in cuts]


def test_a_block_holds_what_upstreams_reader_takes_and_upstreams_writer_does_not_count() -> None:
    assert [most_images(level, upstream=False) for level in range(4)] == [340, 1000, 1000, 1000]
    assert most_images(1, upstream=True) > 1 << 40
    assert [BLOCK_ROOM[level] for level in range(4)] == [16_773_120] + 3 * [16_760_832]


def test_planned_blocks_have_the_planned_numbers() -> None:
    cuts = list(cut_as_planned(map(image, range(6)), (1, 3, 2), 0))
    assert names(cuts) == [["0"], ["1", "2", "3"], ["4", "5"]]
    assert [cut.position for cut in cuts] == [1, 4, 6]


def test_a_planned_pack_goes_on_where_it_stopped() -> None:
    cuts = list(cut_as_planned(map(image, range(1, 6)), (3, 2), 1))
    assert [cut.position for cut in cuts] == [4, 6]
    assert list(cut_as_planned([], (), 6)) == []


def test_a_block_is_cut_before_the_image_that_does_not_fit() -> None:
    quarter = len(PIECE)
    assert 4 * quarter == CAPACITY
    sizes = [quarter, quarter, quarter, quarter, 64, quarter]
    cuts = list(cut_next_fit(itertools.starmap(image, enumerate(sizes)), 3, 1000, 0))
    assert names(cuts) == [["0", "1", "2", "3"], ["4", "5"]]
    assert [cut.position for cut in cuts] == [4, 6]


def test_an_image_takes_its_padding_too() -> None:
    quarter = len(PIECE)
    sizes = [quarter, quarter, quarter, quarter - 640, *[1] * 11]
    cuts = list(cut_next_fit(itertools.starmap(image, enumerate(sizes)), 3, 1000, 0))
    assert [len(cut.images) for cut in cuts] == [14, 1]


def test_a_block_is_cut_at_the_most_images() -> None:
    cuts = list(cut_next_fit(map(image, range(7)), 1, 3, 0))
    assert names(cuts) == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert [cut.position for cut in cuts] == [3, 6, 7]


def test_rejects_come_with_the_block_in_whose_place_they_stood() -> None:
    stream: list[Prepared | Reject] = [
        reject(0),
        image(1),
        reject(2),
        image(3),
        reject(4),
        image(5),
        reject(6),
    ]
    cuts = list(cut_next_fit(stream, 1, 2, 0))
    assert names(cuts) == [["1", "3"], ["5"]]
    assert [[one.name for one in cut.rejects] for cut in cuts] == [["0", "2", "4"], ["6"]]
    assert [cut.position for cut in cuts] == [5, 7]


def test_rejects_alone_come_without_a_block() -> None:
    assert list(cut_next_fit([reject(0), reject(1)], 1, 2, 5)) == [
        Cut((), (reject(0), reject(1)), 7)
    ]
    assert list(cut_next_fit([], 1, 2, 5)) == []


STREAMS = st.lists(
    st.one_of(st.none(), st.integers(1, len(PIECE)), st.just(len(PIECE))), max_size=40
)


def stream_of(sizes: list[int | None]) -> list[Prepared | Reject]:
    return [
        reject(number) if size is None else image(number, size) for number, size in enumerate(sizes)
    ]


@given(STREAMS, st.integers(1, 9))
def test_every_item_is_in_one_cut_in_order_and_no_block_is_too_full(
    sizes: list[int | None], most: int
) -> None:
    stream = stream_of(sizes)
    cuts = list(cut_next_fit(stream, 3, most, 0))
    images = [one for cut in cuts for one in cut.images]
    assert images == [one for one in stream if isinstance(one, Prepared)]
    rejects = [one for cut in cuts for one in cut.rejects]
    assert rejects == [one for one in stream if isinstance(one, Reject)]
    for cut in cuts:
        assert len(cut.images) <= most
        assert sum(aligned(len(one.encoded.data)) for one in cut.images) <= CAPACITY
    assert all(cut.images for cut in cuts[:-1])
    assert [cut.position for cut in cuts][-1:] == ([len(stream)] if stream else [])


@given(STREAMS, st.integers(1, 9))
def test_going_on_after_any_block_gives_the_same_blocks(sizes: list[int | None], most: int) -> None:
    stream = stream_of(sizes)
    cuts = list(cut_next_fit(stream, 3, most, 0))
    for number, cut in enumerate(cuts, 1):
        rest = list(cut_next_fit(stream[cut.position :], 3, most, cut.position))
        assert rest == cuts[number:]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_an_image_that_fills_a_block_is_a_block(level: int) -> None:
    encoded = Encoded(bytes(BLOCK_ROOM[level]), 1, 1)
    whole = Prepared(SourceImage("w", 0, NOWHERE), encoded, "", 0, Sums())
    cuts = list(cut_next_fit([whole, image(1), whole], level, 1000, 0))
    assert [len(cut.images) for cut in cuts] == [1, 1, 1]

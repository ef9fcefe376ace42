import errno
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtsflow.errors import ClosedError, VolumeError
from dtsflow.reader import block_io, files_on_demand
from dtsflow.reader.block_io import Verify
from dtsflow.reader.files_on_demand import ImageStore, images_in_hand
from dtsflow.reader.order import Order, Rows, Shuffle
from dtsflow.volume.datasets.config import Raw
from dtsflow.volume.datasets.images import RawSet
from dtsflow.volume.format.io import read_into


@pytest.fixture
def images(tmp_path: Path) -> RawSet:
    """Files of 0, 1, 2, … bytes, which nobody decodes."""
    folder = tmp_path / "images" / "a"
    folder.mkdir(parents=True)
    for number in range(6):
        (folder / f"{number}.jpg").write_bytes(bytes([number]) * number)
    found = Raw(str(tmp_path / "images")).scan()
    assert isinstance(found, RawSet)
    return found


def rows_of(images: RawSet) -> Rows:
    order = Order(images.counts, 6, 1, seed=2, shuffle=Shuffle.FULL)
    return order.epoch(0).rows(0, 1, range(1))


def test_each_row_has_the_bytes_of_its_image(images: RawSet) -> None:
    store, rows = ImageStore(images, Verify.BLOCK, 0, 0), rows_of(images)
    samples = store.gather(rows)
    assert [bytes(samples.data(n)) for n in range(6)] == [bytes([i]) * i for i in rows.ids]
    assert samples.ids.tolist() == rows.ids.tolist() != sorted(rows.ids)
    assert samples.labels.tolist() == [0] * 6
    store.release(rows)
    store.close()


def test_every_thread_reads_with_a_file_of_its_own_and_none_stays_open(images: RawSet) -> None:
    store, rows = ImageStore(images, Verify.BLOCK, 0, 0), rows_of(images)
    before = len(list(Path("/proc/self/fd").iterdir()))
    store.gather(rows)
    other = threading.Thread(target=store.gather, args=(rows,))
    other.start()
    other.join()
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 2
    store.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with pytest.raises(ClosedError):
        store.gather(rows)


def test_a_read_that_fails_for_a_while_is_tried_again_and_counted(
    images: RawSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_io, "_FIRST_PAUSE_S", 0.001)
    failures = iter([True, True, False, True])

    def failing(*args: Any, **more: Any) -> bool:
        if next(failures, False):
            raise VolumeError("reading failed") from OSError(errno.EIO, "EIO")
        return read_into(*args, **more)

    monkeypatch.setattr(files_on_demand, "read_into", failing)
    store = ImageStore(images, Verify.BLOCK, 2, 0)
    samples = store.gather(rows_of(images))
    assert int(samples.sizes.sum()) == 15
    assert store.retries == 3
    store.close()


def test_a_file_that_is_gone_is_named_by_the_id_that_it_has_in_the_mix(images: RawSet) -> None:
    images.runs.path(4).unlink()
    store = ImageStore(images, Verify.BLOCK, 0, 100)
    with pytest.raises(VolumeError, match=r"sample_id 104: .*a/4\.jpg"):
        store.gather(rows_of(images))
    store.close()


def test_what_is_in_hand_is_the_largest_images_of_all_sources() -> None:
    sizes = [np.array([5, 1, 9]), np.array([7, 2])]
    assert images_in_hand(sizes, 3, may_repeat=False) == 9 + 7 + 5
    assert images_in_hand(sizes, 3, may_repeat=True) == 27
    assert images_in_hand(sizes, 8, may_repeat=False) == 24
    assert images_in_hand([], 3, may_repeat=True) == images_in_hand([], 3, may_repeat=False) == 0

"""The raw store: images are read from their own files, some batches ahead.

Their bytes lie in a memory that is filled and freed in turn.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dtsflow.errors import ClosedError, StallError
from dtsflow.memory.align import aligned_bytes
from dtsflow.reader.block_io import Verify
from dtsflow.reader.files_on_demand import ImageReader
from dtsflow.reader.order import EpochOrder, Ints, Rows
from dtsflow.reader.rows import Portions, RowTable
from dtsflow.reader.store import Bytes, IoThreads, Samples
from dtsflow.volume.datasets.images import RawSet


class Ring:
    """Gives out places in a memory of `capacity` bytes, one behind the other.

    Places may be freed in any order, and are used again in the order they were given.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._taken: deque[list[int]] = deque()  # start, end and 1 if free, oldest first

    def take(self, size: int) -> int | None:
        """Return where `size` bytes, at least 1, are free.

        None if there is no such place.

        A size up to the capacity finds room at the latest when all others are freed.
        """
        assert 0 < size <= self._capacity
        start = self._room(size)
        if start is not None:
            self._taken.append([start, start + size, 0])
        return start

    def free(self, start: int) -> None:
        """Say that nobody needs the bytes that `take` gave at `start` any more."""
        for place in self._taken:
            if place[0] == start and not place[2]:
                place[2] = 1
                break
        while self._taken and self._taken[0][2]:
            self._taken.popleft()

    def clear(self) -> None:
        """Free everything."""
        self._taken.clear()

    def _room(self, size: int) -> int | None:
        if not self._taken:
            return 0
        oldest, end = self._taken[0][0], self._taken[-1][1]
        if self._taken[-1][0] < oldest:  # the newest lie in front of the oldest
            return end if end + size <= oldest else None
        if end + size <= self._capacity:
            return end
        return 0 if size <= oldest else None


AHEAD_BYTES = 64 << 20  # beside two batches of mean size: what a short pause of a disk takes


def raw_bytes(images: RawSet, portions: Portions) -> int:
    """Return the bytes that images read ahead occupy during a run, at most.

    Two batches of images of mean size and `AHEAD_BYTES`, or all images where these are
    fewer bytes; but any portion fits, also one of the largest images there are.
    """
    sizes = images.runs.sizes
    if portions.selection is not None:
        sizes = sizes[portions.selection.ids]
    if portions.may_repeat:
        largest = int(sizes.max()) * portions.chunk_rows
    else:
        first = len(sizes) - portions.chunk_rows
        largest = int(np.partition(sizes, first)[first:].sum())
    everything = int(sizes.sum())
    ahead = AHEAD_BYTES + 2 * portions.rows * -(-everything // len(sizes))
    return max(1, largest, min(ahead, everything))


class _Portion:
    """Rows whose images lie together in the memory.

    `left` counts the rows still to be written, `missing` the images still to come.
    """

    def __init__(self, number: int, rows: Rows, images: RawSet) -> None:
        self.number = number
        self.ids = rows.ids
        self.wanted = np.flatnonzero(rows.valid)
        self.sizes = np.zeros(len(rows), np.int64)
        self.sizes[self.wanted] = images.runs.sizes[rows.ids[self.wanted]]
        self.offsets = np.cumsum(self.sizes) - self.sizes  # from `start` on
        self.start = -1  # of its place in the memory, once it has one
        self.taken = 0  # of `wanted`, by IO threads
        self.missing = self.left = len(self.wanted)
        self.errors: dict[int, Exception] = {}

    @property
    def nbytes(self) -> int:
        return max(1, int(self.sizes.sum()))  # an image may be an empty file


@dataclass(frozen=True, slots=True)
class _Load:
    """An image to read into its place."""

    portion: _Portion
    row: int
    of_pass: int

    @property
    def sample_id(self) -> int:
        return int(self.portion.ids[self.row])

    def memory_in(self, memory: Bytes) -> Bytes:
        start = self.portion.start + int(self.portion.offsets[self.row])
        return memory[start : start + int(self.portion.sizes[self.row])]


class RawStore:
    """The images of the coming rows, in one memory; satisfies Store.

    IO threads read them in the order they are needed, as far ahead as there is room.

    Args:
        images: The data set.
        portions: How its rows leave. A `gather` of more than a portion may wait for
            ever: only those rows together surely find room.
    """

    def __init__(
        self, images: RawSet, portions: Portions, io_threads: int, verify: Verify, retries: int
    ) -> None:
        self._shared = _Shared(images, portions)
        readers = [
            ImageReader(images, verify, retries, self._shared.pause) for _ in range(io_threads)
        ]
        self._io = IoThreads(readers, partial(_read_images, self._shared), self._shared.close)

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """Return the IO threads."""
        return self._io.threads

    @property
    def retries(self) -> int:
        """Return how often a read was tried again so far."""
        return self._io.retries

    def begin(self, epoch: EpochOrder, steps: range, timeout_s: float = 300.0) -> None:
        """Begin to read the images of a pass, in the order they are needed.

        Raises:
            StallError: A read for the pass before has not returned for `timeout_s`.
        """
        self._shared.begin(epoch, steps, timeout_s)

    def end(self) -> None:
        """Read no more for this pass, and wake whoever waits in it."""
        self._shared.end()

    def gather(self, rows: Rows) -> Samples:
        """Return the stored samples of `rows`, all valid.

        It waits until they are there.

        Raises:
            VolumeError: An image could not be read.
            ClosedError: The store was closed, or the pass ended, while this waited.
        """
        return self._shared.gather(rows)

    def release(self, rows: Rows) -> None:
        """Say that rows are written; a portion all of whose rows are makes room."""
        self._shared.release(rows)

    def progress(self) -> str:
        """Return how far reading has come, for the message of a stalled run."""
        return self._shared.progress()

    def close(self, *, wait: bool = True) -> None:
        """Stop reading, wake every waiter, and wait until the IO threads are gone."""
        self._io.close(wait=wait)


class _Shared:
    """The state that IO threads write and workers read; does not refer to its store."""

    def __init__(self, images: RawSet, portions: Portions) -> None:
        self._images = images
        self._division = portions
        capacity = raw_bytes(images, portions)
        self.memory = aligned_bytes(capacity)
        self._ring = Ring(capacity)
        self._table: RowTable | None = None  # of the pass, while there is one
        self._coming: Iterator[_Portion] = iter(())
        self._next: _Portion | None = None  # the one that is read, or waits for room
        self._portions: dict[int, _Portion] = {}  # those with a place in the memory
        self._pass = 0  # counts up with every beginning and end
        self._busy = 0  # IO threads that write to the memory
        self._closed = False
        self._changed = threading.Condition()
        self._ending = threading.Event()

    def begin(self, epoch: EpochOrder, steps: range, timeout_s: float) -> None:
        with self._changed:
            # What is still read for the pass before would be written into this one's.
            if not self._changed.wait_for(lambda: self._closed or not self._busy, timeout_s):
                raise StallError(
                    f"The disk stalled: {self._busy} reads for the pass before have not returned "
                    f"after {timeout_s:g} s. Check the disk or the network share."
                )
            self._forget()
            self._table = self._division.table(epoch)
            self._coming = self._all_portions(self._table, steps)
            self._next = next(self._coming, None)
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._forget()
            self._changed.notify_all()

    def gather(self, rows: Rows) -> Samples:
        offsets = np.empty(len(rows), np.int64)
        sizes = np.empty(len(rows), np.int64)
        for number, part, places in self._parts(rows):
            portion = self._wait_for(number, places)
            offsets[part] = portion.start + portion.offsets[places]
            sizes[part] = portion.sizes[places]
        return Samples(self.memory, offsets, sizes, self._images.labels[rows.ids], rows.ids)

    def release(self, rows: Rows) -> None:
        with self._changed:
            for number, _, places in self._parts(rows):
                portion = self._portions.get(number)
                if portion is None:
                    continue  # the pass has ended meanwhile
                portion.left -= len(places)
                assert portion.left >= 0
                if not portion.left:
                    del self._portions[number]
                    self._ring.free(portion.start)
                    self._changed.notify_all()

    def next_load(self) -> _Load | None:
        """Take the image that is needed first; waits for room for it."""
        with self._changed:
            while not self._closed:
                if (portion := self._next) is not None and self._has_place(portion):
                    row = int(portion.wanted[portion.taken])
                    portion.taken += 1
                    if portion.taken == len(portion.wanted):
                        self._next = next(self._coming, None)
                    self._busy += 1
                    return _Load(portion, row, self._pass)
                self._changed.wait()
            return None

    def done(self, load: _Load, error: Exception | None = None) -> None:
        """Say that an image has come, or why not, or that nobody waits for it."""
        with self._changed:
            if error is not None:
                load.portion.errors[load.row] = error
            load.portion.missing -= 1
            self._busy -= 1
            if not (load.portion.missing and self._busy):
                self._changed.notify_all()

    def is_over(self, load: _Load) -> bool:
        return self._closed or load.of_pass != self._pass

    def pause(self, seconds: float) -> bool:
        """Wait; True if the store was closed meanwhile."""
        return self._ending.wait(seconds)

    def progress(self) -> str:
        with self._changed:
            return f"{self._busy} images are being read, {len(self._portions)} portions are held"

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._ending.set()
            self._changed.notify_all()

    def _forget(self) -> None:
        self._pass += 1
        self._table, self._next, self._coming = None, None, iter(())
        self._portions = {}
        self._ring.clear()

    def _all_portions(self, table: RowTable, steps: range) -> Iterator[_Portion]:
        """Yield the portions of a pass that have an image, in their order."""
        of_batch = self._division.of_batch
        for number in range(steps.start * of_batch, steps.stop * of_batch):
            rows = self._division.rows_of(table, number)
            if rows.valid.any():
                yield _Portion(number, rows, self._images)

    def _has_place(self, portion: _Portion) -> bool:
        """Tell whether the portion has a place in the memory, or can be given one."""
        if portion.start < 0:
            start = self._ring.take(portion.nbytes)
            if start is None:
                return False
            portion.start = start
            self._portions[portion.number] = portion
        return True

    def _wait_for(self, number: int, places: Ints) -> _Portion:
        with self._changed:
            begun = self._pass
            while True:
                if self._closed or self._pass != begun or self._table is None:
                    raise ClosedError("The pass was ended while a worker waited for an image.")
                portion = self._portions.get(number)
                if portion is not None and not portion.missing:
                    break
                self._changed.wait()
        for place in places.tolist() if portion.errors else ():
            if (error := portion.errors.get(place)) is not None:
                # A new one for each caller: one that was raised keeps its frames.
                raise type(error)(*error.args) from error
        return portion

    def _parts(self, rows: Rows) -> Iterator[tuple[int, slice, Ints]]:
        """Yield each portion of these rows: its number, which rows, their places."""
        numbers, places = self._division.locate(rows)
        edges = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
        for start, stop in zip([0, *edges], [*edges, len(rows)], strict=True):
            yield int(numbers[start]), slice(start, stop), places[start:stop]


def _read_images(shared: _Shared, reader: ImageReader) -> None:
    """Run one IO thread; after an image that fails it reads the next one."""
    try:
        while (load := shared.next_load()) is not None:
            try:
                # A read that is left half-way belongs to a pass that nobody waits for.
                reader.read(
                    load.sample_id,
                    load.memory_in(shared.memory),
                    partial(shared.is_over, load),
                )
                shared.done(load)
            except Exception as error:  # noqa: BLE001  # whoever needs the image raises it
                shared.done(load, error)
    finally:
        reader.close()

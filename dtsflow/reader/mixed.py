"""The store of a mix: each source has one of its own."""

import dataclasses
import threading
from collections.abc import Sequence

from dtsflow.reader.order import EpochOrder, Rows
from dtsflow.reader.store import Samples, Store
from dtsflow.volume.datasets.mixed import MixedSet


class MixedStore:
    """Asks the store of a row's source; satisfies Store, but for one thing.

    All rows of one `gather` are of one source, and need not be consecutive.

    Args:
        mix: The data set.
        stores: That of each source, for its own blocks and ids.
    """

    def __init__(self, mix: MixedSet, stores: Sequence[Store]) -> None:
        self._mix = mix
        self._stores = stores

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """Return the IO threads of all sources."""
        return [thread for store in self._stores for thread in store.threads]

    @property
    def retries(self) -> int:
        """Return how often a read was tried again so far."""
        return sum(store.retries for store in self._stores)

    def begin(self, epoch: EpochOrder, steps: range, timeout_s: float = 300.0) -> None:
        """Begin a pass."""
        for store in self._stores:
            store.begin(epoch, steps, timeout_s)

    def gather(self, rows: Rows) -> Samples:
        """Return the stored samples of `rows`, all valid and of one source.

        Raises:
            VolumeError: One could not be read.
            ClosedError: The store was closed while this waited.
        """
        source, own = self._of_source(rows)
        samples = self._stores[source].gather(own)
        stands_for = rows.draw_ids(self._mix.num_samples)
        return dataclasses.replace(samples, ids=rows.ids, stands_for=stands_for)

    def release(self, rows: Rows) -> None:
        """Say that the rows of an earlier `gather` are written."""
        source, own = self._of_source(rows)
        self._stores[source].release(own)

    def end(self) -> None:
        """End the pass."""
        for store in self._stores:
            store.end()

    def progress(self) -> str:
        """Return how far reading has come, for the message of a stalled run."""
        return "; ".join(store.progress() for store in self._stores)

    def close(self, *, wait: bool = True) -> None:
        """Close the stores of all sources."""
        for store in self._stores:
            store.close(wait=wait)

    def _of_source(self, rows: Rows) -> tuple[int, Rows]:
        """Whose the rows are, and the same as the source counts them."""
        source = 0 if rows.sources is None else int(rows.sources[0])
        assert rows.sources is None or (rows.sources == source).all()
        return source, dataclasses.replace(
            rows,
            ids=rows.ids - self._mix.first_samples[source],
            blocks=rows.blocks - self._mix.first_blocks[source],
        )

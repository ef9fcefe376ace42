"""Fill one chunk of rows: read, decode, preprocess, write."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from dtsflow.decode.decoder import Decoder
from dtsflow.errors import DecodeError
from dtsflow.po.chain import Program
from dtsflow.po.operation import Params, Sizes
from dtsflow.reader.order import Rows
from dtsflow.reader.resident import ResidentStore
from dtsflow.reader.row_table import RowTable
from dtsflow.reader.samples import Samples
from dtsflow.station.turns import ZONES
from dtsflow.station.zone import Zone


@dataclass(slots=True)
class StageTimes:
    """Seconds that one worker spent in each stage."""

    read: float = 0.0
    decode: float = 0.0
    po: float = 0.0

    @classmethod
    def sum_of(cls, parts: Iterable["StageTimes"]) -> "StageTimes":
        """The times of several workers together."""
        total = cls()
        for part in parts:
            total.read += part.read
            total.decode += part.decode
            total.po += part.po
        return total


@dataclass(frozen=True, slots=True)
class Address:
    """What the draws of a pass are addressed by, beside the sample."""

    seed: int
    epoch: int
    phase: int


@dataclass(frozen=True, slots=True)
class Tools:
    """What one worker uses: its own decoder and program, the shared store and zones.

    Attributes:
        where: Names a sample by file, block and index, for error messages.
    """

    store: ResidentStore
    decoder: Decoder
    program: Program
    zones: tuple[Zone, Zone]
    where: Callable[[int], str]
    times: StageTimes = field(default_factory=StageTimes)


class Filler:
    """Fills chunks of `chunk_rows` consecutive rows; one a worker and pass."""

    def __init__(self, tools: Tools, table: RowTable, address: Address, chunk_rows: int) -> None:
        self._tools = tools
        self._table = table
        self._address = address
        self._chunk_rows = chunk_rows

    def __call__(self, step: int, chunk: int) -> None:
        """Write the rows of chunk `chunk` of global batch `step`.

        Raises:
            DecodeError: A sample is damaged; names its volume, block, label and id.
            VolumeError: A block cannot be read.
        """
        zone = self._tools.zones[step % ZONES]
        rows = self._table.rows(step)
        part = slice(chunk * self._chunk_rows, min((chunk + 1) * self._chunk_rows, len(rows)))
        rows = rows[part]
        if not rows.valid.all():
            zone.clear_rows(part)
        present = np.flatnonzero(rows.valid)
        if len(present):
            self._fill(zone, present + part.start, _only(rows, present))

    def _fill(self, zone: Zone, places: Sizes, rows: Rows) -> None:
        tools, times = self._tools, self._tools.times
        began = time.perf_counter()
        samples = tools.store.gather(rows)
        times.read += time.perf_counter() - began

        began = time.perf_counter()
        sizes = np.array([self._probe(samples, i) for i in range(len(samples))], np.int64)
        times.decode += time.perf_counter() - began

        began = time.perf_counter()
        params = tools.program.draw(
            seed=self._address.seed,
            ids=rows.ids,
            epoch=self._address.epoch,
            phase=self._address.phase,
            sizes=sizes,
        )
        times.po += time.perf_counter() - began

        for number, place in enumerate(places):
            self._write(zone, int(place), samples, number, params)
        zone.labels[places] = samples.labels
        zone.sample_ids[places] = rows.ids
        zone.valid[places] = True

    def _write(
        self, zone: Zone, place: int, samples: Samples, number: int, params: list[Params]
    ) -> None:
        times = self._tools.times
        began = time.perf_counter()
        try:
            image = self._tools.decoder.decode(samples.data(number))
        except DecodeError as error:
            raise self._located(error, samples, number) from error
        decoded = time.perf_counter()
        self._tools.program.run(image, zone.images[place], params, number)
        zone.padded[place, ..., zone.images.shape[-1] :] = 0
        times.decode += decoded - began
        times.po += time.perf_counter() - decoded

    def _probe(self, samples: Samples, number: int) -> tuple[int, int]:
        try:
            return self._tools.decoder.probe(samples.data(number))
        except DecodeError as error:
            raise self._located(error, samples, number) from error

    def _located(self, error: DecodeError, samples: Samples, number: int) -> DecodeError:
        sample_id = int(samples.ids[number])
        return DecodeError(
            f"{self._tools.where(sample_id)} (label {samples.labels[number]}, sample_id "
            f"{sample_id}) cannot be decoded: {error}"
        )


def _only(rows: Rows, present: Sizes) -> Rows:
    return Rows(rows.ids[present], rows.blocks[present], rows.places[present], rows.valid[present])

"""OneFlow's Mini DataLoader: its reader and its decoder."""

from typing import Literal

from dtsflow.plugin import DType, Field, PartFiles, configurable


@configurable
class MiniReader:
    """The lines of numbered files; satisfies Loader."""

    data_dir: str
    data_part_num: int
    part_name_prefix: str = "part-"
    part_name_suffix_length: int = -1
    batch_size: int = 1
    random_shuffle: bool = False
    shuffle_after_epoch: bool = False
    seed: Literal[-1] = -1
    shuffle_buffer_size: int = 1024

    def records(self):
        """Find the lines, and say how far they may be shuffled."""
        names = self.part_name_prefix, self.part_name_suffix_length
        parts = PartFiles.numbered(self.data_dir, self.data_part_num, *names)
        buffer = self.shuffle_buffer_size if self.random_shuffle else 0
        return parts.lines(buffer=None if self.shuffle_after_epoch else buffer)


@configurable
class MiniDecoder:
    """Two numbers a line become `x` and `y`; satisfies Parser."""

    fields = (Field("x", (1,), DType.FP64), Field("y", (1,), DType.FP64))

    def start(self):
        """Serve a worker: there is no state."""
        return self

    def parse(self, records, out):
        """Write a row for each line; one that is not two numbers is bad."""
        for row, record in enumerate(records):
            out["x"][row], out["y"][row] = map(float, bytes(record).split(b","))

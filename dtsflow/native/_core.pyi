from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from _typeshed import ReadableBuffer

class Program:
    def __init__(
        self,
        kinds: Sequence[int],
        encoded: bool,
        channels: int,
        stored_channels: int,
        cast: int,
        scale: npt.NDArray[np.float32],
        offset: npt.NDArray[np.float32],
        table: npt.NDArray[np.uint8],
        normals: npt.NDArray[np.int16] | None = None,
    ) -> None: ...

class Drawings:
    def __init__(self, steps: Sequence[tuple[int, int, Sequence[float]]]) -> None: ...

class Recipe:
    def __init__(
        self,
        program: Program,
        drawings: Drawings,
        pixels: tuple[int, int],
        turns: bool,
        shrinks: bool,
        out: tuple[int, int],
    ) -> None: ...

def fill_chunk(
    recipe: Recipe,
    memory: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int64],
    address: tuple[int, int, int, int],
    out: npt.NDArray[np.uint8],
    first: int,
    rows: npt.NDArray[np.int64],
    status: npt.NDArray[np.int32],
) -> int: ...
def draw_chunk(
    drawings: Drawings,
    shapes: npt.NDArray[np.int32],
    ids: npt.NDArray[np.int64],
    address: tuple[int, int, int, int],
    shrinks: bool,
    params: npt.NDArray[np.int32],
    status: npt.NDArray[np.int32],
) -> int: ...
def probe(
    memory: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    facts: npt.NDArray[np.int32],
) -> None: ...
def run_chunk(
    program: Program,
    memory: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    shapes: npt.NDArray[np.int32],
    params: npt.NDArray[np.int32],
    out: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.int64],
    out_shapes: npt.NDArray[np.int32],
    status: npt.NDArray[np.int32],
) -> None: ...
def mix_rows(
    rows: npt.NDArray[np.uint8], cast: int, partners: npt.NDArray[np.int64], share: float
) -> None: ...
def paste_rows(
    rows: npt.NDArray[np.uint8],
    partners: npt.NDArray[np.int64],
    window: tuple[int, int, int, int],
) -> None: ...
def philox(
    counters: npt.NDArray[np.uint32], key0: int, key1: int, words: npt.NDArray[np.uint32]
) -> None: ...
def add_restarts(jpeg: ReadableBuffer) -> bytes | None: ...
def crc32(buffer: ReadableBuffer, value: int = 0) -> int: ...
def cpu_level() -> str: ...
def force_cpu_level(name: str) -> bool: ...

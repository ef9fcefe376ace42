"""Checks of a plugin for images: of its decoders and operations."""

from collections.abc import Sequence

import numpy as np

from dtsflow.errors import DecodeError
from dtsflow.pipeline.phase import Decode
from dtsflow.po.operation import Operation
from dtsflow.seed.draws import Draws, operation_draws
from dtsflow.spec import ImageSpec
from dtsflow.testing.sameness import FILLS, pickled


def check_operation(
    operation: Operation,
    spec: ImageSpec | None = None,
    *,
    sizes: Sequence[tuple[int, int]] = ((24, 32), (17, 40), (33, 21)),
) -> None:
    """Check an operation on random images: of `spec`, or of these heights and widths.

    The operation pickles, and its spec and sizes describe what it makes. It draws for
    and works on a sample the same in any chunk, and writes all of its output.

    Raises:
        AssertionError: It breaks its contract.
    """
    name = type(operation).__name__
    assert isinstance(operation, Operation), f"{name} lacks a method of an operation"
    twin = pickled(operation)
    entering = spec or ImageSpec(None, None, 3)
    leaving = operation.out_spec(entering)
    if entering.height is not None and entering.width is not None:
        sizes = [(entering.height, entering.width)] * 3
    known = np.array(sizes, np.int64)
    draws = _draws(operation, len(known))
    params = operation.draw(draws, known)
    out_sizes = operation.out_sizes(known, params)
    assert out_sizes.shape == known.shape, f"{name}: out_sizes has shape {out_sizes.shape}"
    rng = np.random.default_rng(0)
    for place, (height, width) in enumerate(known.tolist()):
        one = slice(place, place + 1)
        alone = twin.draw(Draws(draws.words[one]), known[one])
        assert alone.tobytes() == params[one].tobytes(), f"{name} draws otherwise in other company"
        made = tuple(int(side) for side in out_sizes[place])
        for side, claimed in zip(made, (leaving.height, leaving.width), strict=True):
            assert claimed in (None, side), f"{name}: out_spec says {leaving}, out_sizes {made}"
        image = rng.integers(0, 256, (height, width, entering.channels), np.uint8)
        before = image.copy()
        outs = []
        for byte in FILLS:
            out = np.empty((*made, leaving.channels), leaving.dtype.numpy)
            out.view(np.uint8).reshape(-1)[:] = byte
            operation.apply(image, out, params[place])
            outs.append(out.tobytes())
        assert outs[0] == outs[1], f"{name} leaves pixels unwritten, or is not deterministic"
        assert np.array_equal(before, image), f"{name} changes the image that goes in"


def check_decoder(decode: Decode, good: Sequence[bytes], bad: bytes = b"no image") -> None:
    """Check a decoder on some samples, and on one that it must refuse.

    Raises:
        AssertionError: It breaks its contract.
    """
    name = type(decode).__name__
    assert isinstance(decode, Decode), f"{name} lacks a member of a decode option"
    first, second = decode.start(), pickled(decode).start()
    for number, data in enumerate(good):
        image, again = first.decode(data), second.decode(memoryview(data))
        assert image.dtype == np.uint8, f"{name} gives {image.dtype}, and not uint8"
        claimed = tuple(first.probe(data))[:2]
        assert claimed == image.shape[:2], f"{name} probes {claimed}, and decodes {image.shape}"
        assert np.array_equal(image, again), f"{name} decodes sample {number} otherwise each time"
    try:
        first.decode(bad)
    except DecodeError:
        return
    raise AssertionError(f"{name} takes {bad!r} for an image; it must raise DecodeError")


def _draws(operation: Operation, rows: int) -> Draws:
    ids = np.arange(rows, dtype=np.int64)
    words = (operation.words,)
    return operation_draws(seed=0, ids=ids, epoch=0, phase=0, view=0, words=words)[0]

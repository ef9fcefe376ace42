"""Softmax regression, trained where the batches are: by NumPy, or by cupy on a device.

The file also has device work that is recorded once and then replayed, as a CUDA graph,
and a straight line through the origin, by least squares over all rows so far.

A row x of n has the scores z = W x + b and the probabilities p = exp(z) / sum(exp(z)).
The loss is the mean of -log p[label] over the valid rows; its gradient by the scores of
such a row is (p - e) / n, with e the unit vector of the label.
"""

import importlib
import io
import json
import math
from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dtsflow.arena.batch import Batch
from dtsflow.config.configurable import configurable
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.train import TRAIN
from dtsflow.errors import ConfigError
from dtsflow.tensor.dtype import DType


class Captured:
    """Runs work that is the same each time but for what its memory holds.

    Starting a kernel costs microseconds of the host; a graph starts all of them at
    once. The addresses of a batch are two for the whole run, so two graphs do. A graph
    repeats addresses and numbers as they were recorded: what changes from one time to
    the next must be in arrays that stay where they are, and nothing may come from the
    host or go there.

    The first time with a key, the work runs as it is, which compiles kernels and
    reserves the memory of its temporary arrays; the second time it is recorded, and
    from then on replayed. It always is work of the current stream. cupy records no call
    of cuBLAS.

    Args:
        cupy: The library.
    """

    def __init__(self, cupy: Any) -> None:
        self._cuda = cupy.cuda
        self._stream = cupy.cuda.Stream(non_blocking=True)  # the default one cannot record
        # Of its own, so that nobody else gets the memory that a graph writes to.
        self._pool = cupy.cuda.MemoryPool()
        self._graphs: dict[Hashable, Any] = {}

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do `work`, whose arrays all are those of the last time with this `key`."""
        if key not in self._graphs:
            self._graphs[key] = None
            self._warm(work)
            return
        if self._graphs[key] is None:
            self._graphs[key] = self._record(work)
        self._graphs[key].launch()

    def _warm(self, work: Callable[[], None]) -> None:
        """Do the work on the stream that will record it, in the current one's turn."""
        current = self._cuda.get_current_stream()
        self._stream.wait_event(current.record())
        with self._cuda.using_allocator(self._pool.malloc), self._stream:
            work()
        current.wait_event(self._stream.record())

    def _record(self, work: Callable[[], None]) -> Any:
        with self._cuda.using_allocator(self._pool.malloc), self._stream:
            # Only of this thread: others go on to copy and to wait meanwhile.
            self._stream.begin_capture(self._cuda.runtime.streamCaptureModeThreadLocal)
            try:
                work()
            finally:
                graph = self._stream.end_capture()
        return graph


@configurable
class Softmax:
    """One linear layer on all pixels; stochastic gradient descent from zeros.

    The example of a step on a device: with `arena=device` weights stay there, and the
    kernels of a step are captured once for each of the two addresses of a batch and
    replayed as a CUDA graph. It takes FP32 or FP16 pixels, of one size in all phases.

    Attributes:
        lr: Learning rate.
    """

    lr: Annotated[float, Field(gt=0)] = 0.01

    def init(self, setting: Setting) -> "SoftmaxLearner":
        """Weights of zero.

        Raises:
            ConfigError: The phase `train` is missing, or pixels are neither FP32 nor
                FP16, or phases differ in their size or classes.
        """
        if TRAIN not in setting.phases:
            raise ConfigError(f"consumer=train needs a phase {TRAIN!r}; add it to `phases`.")
        own = setting.phases[TRAIN]
        features = _features(TRAIN, own)
        for name, phase in setting.phases.items():
            same = len(phase.class_names) == len(own.class_names)
            if _features(name, phase) != features or not same:
                raise ConfigError(
                    f"consumer.step: Softmax has one weight a pixel and class: {TRAIN} has "
                    f"{own.pixels} and {len(own.class_names)} classes, {name} has {phase.pixels} "
                    f"and {len(phase.class_names)}. Make them the same."
                )
        return SoftmaxLearner(self.lr, math.prod(features), len(own.class_names))


def _features(name: str, phase: PhaseSetting) -> tuple[int, int, int]:
    """Height, width and channels of a phase's pixels."""
    pixels = phase.pixels
    if pixels is None or pixels.dtype not in (DType.FP32, DType.FP16):
        raise ConfigError(
            f"consumer.step: Softmax takes FP32 or FP16 pixels, and the chain of {name} "
            f"leaves {pixels}. Let it end in Normalize with such a dtype."
        )
    if pixels.height is None or pixels.width is None:
        raise ConfigError(
            f"consumer.step: Softmax takes pixels of one size, and a schedule of {name} changes "
            f"it: {pixels}. Leave the schedule out."
        )
    return pixels.height, pixels.width, pixels.channels


class SoftmaxLearner:
    """The weights, beside the batches; satisfies Learner.

    Args:
        lr: Learning rate.
        features: Values of a row.
        classes: Rows of the weights.
    """

    def __init__(self, lr: float, features: int, classes: int) -> None:
        self._lr = lr
        self._library: Any = np
        self._weights: Any = np.zeros((classes, features), np.float32)
        self._bias: Any = np.zeros(classes, np.float32)
        self._loss: Any = np.zeros((), np.float32)
        self._captured: Captured | None = None

    def step(self, batch: Batch) -> float:
        """Train on the valid rows; answers their mean cross entropy."""
        self._follow(batch)
        with _device_of(batch):
            work = partial(self._train, batch.images, batch.labels)
            if self._captured is None:
                work()
            else:
                key = (batch.images.data.ptr, batch.images.shape, batch.labels.data.ptr)
                self._captured.run(key, work)
            return float(self._loss)

    def evaluate(self, batch: Batch) -> Mapping[str, float]:
        """Return how many valid rows are right, and their summed cross entropy."""
        self._follow(batch)
        with _device_of(batch):
            scores = self._scores(_rows(batch.images))
            _, _, losses = self._compared(scores, batch.labels)
            right = scores.argmax(axis=1) == batch.labels
            return {"accuracy": float(right.sum()), "loss": float(losses.sum())}

    def state(self) -> bytes:
        """Return the weights."""
        kept = io.BytesIO()
        np.savez(kept, weights=_on_host(self._weights), bias=_on_host(self._bias))
        return kept.getvalue()

    def load(self, state: bytes) -> None:
        """Take up what `state` gave; nothing in it is executed."""
        with np.load(io.BytesIO(state), allow_pickle=False) as known:
            # Into the arrays there are: a graph knows their addresses.
            self._weights[...] = self._library.asarray(known["weights"])
            self._bias[...] = self._library.asarray(known["bias"])

    def _follow(self, batch: Batch) -> None:
        """Bring what there is to the library, and the device, of the batches."""
        library = importlib.import_module(type(batch.labels).__module__.partition(".")[0])
        if library is self._library:
            return
        self._library = library
        with _device_of(batch):
            self._weights = library.asarray(self._weights)
            self._bias = library.asarray(self._bias)
            self._loss = library.asarray(self._loss)
            self._captured = Captured(library)

    def _train(self, images: Any, labels: Any) -> None:
        """Take one step, into the arrays there are; the host learns no value."""
        rows = _rows(images)
        scores = self._scores(rows)
        probabilities, shown, losses = self._compared(scores, labels)
        count = self._library.maximum(shown.sum(), 1)
        difference = probabilities - self._is_class(labels)
        by_score = difference * (shown / count)[:, None]
        self._loss[...] = losses.sum() / count
        for number in range(len(self._bias)):
            self._weights[number] -= self._lr * (rows * by_score[:, number, None]).sum(axis=0)
        self._bias -= self._lr * by_score.sum(axis=0)

    def _scores(self, rows: Any) -> Any:
        """Return the scores of each row, less the greatest of them: (B, classes)."""
        scores = self._library.empty((len(rows), len(self._bias)), np.float32)
        # One class after another: a product of matrices would be cuBLAS, and stacking
        # sends addresses to the device; neither can be captured.
        for number in range(len(self._bias)):
            scores[:, number] = (rows * self._weights[number]).sum(axis=1)
        scores += self._bias
        scores -= scores.max(axis=1, keepdims=True)
        return scores

    def _compared(self, scores: Any, labels: Any) -> tuple[Any, Any, Any]:
        """Probabilities; 1 for each valid row, else 0; the row's loss, 0 if not."""
        powers = self._library.exp(scores)
        total = powers.sum(axis=1, keepdims=True)
        shown = (labels >= 0).astype(np.float32)
        its_own = (scores * self._is_class(labels)).sum(axis=1)
        losses = (self._library.log(total[:, 0]) - its_own) * shown
        return powers / total, shown, losses

    def _is_class(self, labels: Any) -> Any:
        """1 at each row's label, else 0; nothing but zeros for label -1."""
        numbers = self._library.arange(len(self._bias))
        return (labels[:, None] == numbers).astype(np.float32)


def _rows(images: Any) -> Any:
    """Return all values of each image as float32: (B, H * W * C)."""
    return images.reshape(len(images), -1).astype(np.float32)


def _device_of(batch: Batch) -> Any:
    """Return a context in which new arrays are made where the batch is."""
    return nullcontext() if isinstance(batch.labels, np.ndarray) else batch.labels.device


def _on_host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()


Numbers = npt.NDArray[np.float64]


@configurable
class LinearFit:
    """Find the slope of y = slope * x from two fields of a set of records.

    The slope of least squares is sum(x * y) / sum(x * x); both sums grow with every
    batch, in FP64. The report has it as `train.slope`.

    Attributes:
        x: Name of the field that is known.
        y: Name of the field that follows from it, of the same shape.
    """

    x: str = "x"
    y: str = "y"

    def init(self, setting: Setting) -> "Line":
        """Begin with no row.

        Raises:
            ConfigError: A phase has no such fields, or they differ in shape.
        """
        for name, phase in setting.phases.items():
            shapes = {field.name: field.shape for field in phase.fields}
            if not {self.x, self.y} <= shapes.keys() or shapes[self.x] != shapes[self.y]:
                has = ", ".join(f"{field}{list(shape)}" for field, shape in shapes.items())
                raise ConfigError(
                    f"consumer.step: LinearFit takes two fields of one shape, {self.x!r} and "
                    f"{self.y!r}, and the batches of {name} have {has or 'images'}."
                )
        return Line(self)


class Line:
    """The sums that the slope follows from; satisfies Learner and Telling."""

    def __init__(self, config: LinearFit) -> None:
        self._config = config
        self._xx = self._xy = 0.0

    def step(self, batch: Batch) -> float:
        """Add the valid rows; answers their mean squared error with the new slope."""
        x, y = self._rows(batch)
        self._xx += float((x * x).sum())
        self._xy += float((x * y).sum())
        return float(np.mean(self._errors(x, y) ** 2)) if len(x) else 0.0

    def evaluate(self, batch: Batch) -> Mapping[str, float]:
        """Return the sum of the squared errors."""
        return {"squared_error": float((self._errors(*self._rows(batch)) ** 2).sum())}

    def results(self) -> Mapping[str, Any]:
        """Return the slope."""
        return {"slope": self._slope}

    def state(self) -> bytes:
        """Both sums, as JSON."""
        return json.dumps([self._xx, self._xy]).encode()

    def load(self, state: bytes) -> None:
        """Go on with them."""
        self._xx, self._xy = json.loads(state)

    @property
    def _slope(self) -> float:
        return self._xy / self._xx if self._xx else 0.0

    def _errors(self, x: Numbers, y: Numbers) -> Numbers:
        return y - self._slope * x

    def _rows(self, batch: Batch) -> tuple[Numbers, Numbers]:
        batch = batch.on_host()
        x, y = (batch.fields[name][batch.valid] for name in (self._config.x, self._config.y))
        return x.astype(np.float64), y.astype(np.float64)

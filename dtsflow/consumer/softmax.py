"""Softmax regression, trained where the batches are: by NumPy, or by cupy on a device.

A row x of n has the scores z = W x + b and the probabilities p = exp(z) / sum(exp(z)).
The loss is the mean of -log p[label] over the valid rows; its gradient by the scores of
such a row is (p - e) / n, with e the unit vector of the label.
"""

import importlib
import io
import math
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from dtsflow.arena.batch import Batch
from dtsflow.configurable import configurable
from dtsflow.consumer.captured import Captured
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.train import TRAIN
from dtsflow.errors import ConfigError
from dtsflow.tensor.dtype import DType


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
            ConfigError: There is no phase `train`, pixels are neither FP32 nor FP16, or
                phases differ in their size or classes.
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
        """How many valid rows are right, and the sum of their cross entropies."""
        self._follow(batch)
        with _device_of(batch):
            scores = self._scores(_rows(batch.images))
            _, _, losses = self._compared(scores, batch.labels)
            right = scores.argmax(axis=1) == batch.labels
            return {"accuracy": float(right.sum()), "loss": float(losses.sum())}

    def state(self) -> bytes:
        """The weights."""
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
        """The scores of each row, less the greatest of them: (B, classes)."""
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
    """All values of each image as float32: (B, H * W * C)."""
    return images.reshape(len(images), -1).astype(np.float32)


def _device_of(batch: Batch) -> Any:
    """A context in which new arrays are made where the batch is."""
    return nullcontext() if isinstance(batch.labels, np.ndarray) else batch.labels.device


def _on_host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()

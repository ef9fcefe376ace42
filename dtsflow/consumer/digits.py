"""A small convolutional network for digits, trained by PyTorch on the CPU."""

import importlib
import io
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from dtsflow.arena.batch import Batch
from dtsflow.config.configurable import configurable
from dtsflow.consumer.consumer import Setting
from dtsflow.consumer.train import TRAIN
from dtsflow.errors import ConfigError, MissingPartError
from dtsflow.tensor.dtype import DType


@configurable
class Digits:
    """Two convolutions and two linear layers; stochastic gradient descent.

    The learning rate follows half a cosine down to zero over all epochs. It takes FP32
    pixels of one size.

    Attributes:
        lr: Learning rate of the first step.
        momentum: Share of the step before that goes on.
        width: Channels of the first convolution; the second has twice as many.
    """

    lr: Annotated[float, Field(gt=0)] = 0.05
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    width: Annotated[int, Field(ge=1)] = 16

    def init(self, setting: Setting) -> "DigitsLearner":
        """Make the network; its first weights depend on the run's seed.

        Raises:
            MissingPartError: PyTorch is not installed.
            ConfigError: The phase `train` is missing, or its pixels are not FP32, or of
                several sizes.
        """
        try:
            torch = importlib.import_module("torch")
        except ImportError as error:
            raise MissingPartError(
                "consumer.step: Digits needs PyTorch: pip install 'dtsflow[torch]'."
            ) from error
        return DigitsLearner(torch, self, setting)


class DigitsLearner:
    """The network and its optimizer; satisfies Learner."""

    def __init__(self, torch: Any, config: Digits, setting: Setting) -> None:
        if TRAIN not in setting.phases:
            raise ConfigError(f"consumer=train needs a phase {TRAIN!r}; add it to `phases`.")
        own = setting.phases[TRAIN]
        if own.pixels is None or own.pixels.dtype is not DType.FP32:
            raise ConfigError(
                f"consumer.step: Digits takes FP32 pixels, and the chain leaves {own.pixels}. Let "
                "it end in Normalize with dtype: FP32."
            )
        if None in (own.pixels.height, own.pixels.width):
            raise ConfigError(
                "consumer.step: Digits takes pixels of one size, and a schedule changes it: "
                f"{own.pixels}. Leave the schedule out."
            )
        self._torch = torch
        self._config = config
        self._all_steps = max(1, setting.epochs * own.steps)
        self._done = 0
        # Apart from the caller's generator, which stays as it was.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(setting.seed % (1 << 63))
            self._model = self._network(own.pixels, len(own.class_names))
        self._optimizer = torch.optim.SGD(
            self._model.parameters(), lr=config.lr, momentum=config.momentum
        )

    def step(self, batch: Batch) -> float:
        """Train on the valid rows; answers their mean cross entropy."""
        torch = self._torch
        images, labels = self._tensors(batch)
        share = 0.5 * (
            1.0 + float(torch.cos(torch.tensor(torch.pi * self._done / self._all_steps)))
        )
        for group in self._optimizer.param_groups:
            group["lr"] = self._config.lr * share
        self._model.train()
        self._optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(self._model(images), labels)
        loss.backward()
        self._optimizer.step()
        self._done += 1
        return float(loss.detach())

    def evaluate(self, batch: Batch) -> Mapping[str, float]:
        """Return how many valid rows are right, and their summed cross entropy."""
        torch = self._torch
        images, labels = self._tensors(batch)
        self._model.eval()
        with torch.no_grad():
            found = self._model(images)
            loss = torch.nn.functional.cross_entropy(found, labels, reduction="sum")
        return {"accuracy": int((found.argmax(1) == labels).sum()), "loss": float(loss)}

    def state(self) -> bytes:
        """Weights, the optimizer's momenta, and how many steps were done."""
        kept = io.BytesIO()
        state = {
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "done": self._done,
        }
        self._torch.save(state, kept)
        return kept.getvalue()

    def load(self, state: bytes) -> None:
        """Take up what `state` gave; nothing in it is executed."""
        known = self._torch.load(io.BytesIO(state), weights_only=True)
        self._model.load_state_dict(known["model"])
        self._optimizer.load_state_dict(known["optimizer"])
        self._done = known["done"]

    def _tensors(self, batch: Batch) -> tuple[Any, Any]:
        rows = batch.compact()  # a copy: it outlives the batch's memory
        images = self._torch.from_numpy(rows.images).permute(0, 3, 1, 2)
        return images, self._torch.from_numpy(rows.labels).long()

    def _network(self, pixels: Any, classes: int) -> Any:
        nn, width = self._torch.nn, self._config.width
        flat = 2 * width * (pixels.height // 4) * (pixels.width // 4)
        return nn.Sequential(
            nn.Conv2d(pixels.channels, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(flat, 128),
            nn.ReLU(),
            nn.Linear(128, classes),
        )

"""Training: each batch is a step, or an evaluation where its phase does not train."""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dtsflow.arena.batch import Batch
from dtsflow.config.configurable import configurable
from dtsflow.consumer.consumer import Setting, Start
from dtsflow.errors import ConfigError, TrainError

TRAIN = "train"  # the phase whose batches are steps; all others are evaluated
LOSSES = "losses.jsonl"
_LEARNER = "learner.{}.{}.{}.bin"  # phase, epoch and step of the batch it goes on with


class Learner(Protocol):
    """A model in training."""

    def step(self, batch: Batch) -> float:
        """Train on the valid rows of `batch`; answers their mean loss."""

    def evaluate(self, batch: Batch) -> Mapping[str, float]:
        """Return sums over the valid rows by name, as `accuracy` (1 if right)."""

    def state(self) -> bytes:
        """Return all that a learner needs to go on as if it had never stopped."""

    def load(self, state: bytes) -> None:
        """Take up what `state` gave."""


@runtime_checkable
class Telling(Protocol):
    """A learner that has something to say of what it learned."""

    def results(self) -> Mapping[str, Any]:
        """Return what the report should hold under `train`, as plain JSON values."""


@runtime_checkable
class Step(Protocol):
    """A configured training step."""

    def init(self, setting: Setting) -> Learner:
        """Return a fresh learner for a run."""


@configurable
class Train:
    """Train with `step` on the batches of phase `train`, evaluate on all others.

    The run folder gets `losses.jsonl`: a line a step, and one with the means of each
    evaluation. With the loader's state the learner's is saved, so that a run that was
    killed goes on with both as they were together.

    Attributes:
        step: What trains.
    """

    step: Step

    def open(self, setting: Setting) -> "Training":
        """Make the learner, or take it up where the run goes on.

        Raises:
            ConfigError: The run goes on somewhere and has no learner of that place, or
                has several ranks, of which each would train a learner of its own.
        """
        if setting.rank.size > 1:
            raise ConfigError(
                f"consumer=train trains in one process, and this run has {setting.rank.size}. Use "
                "one, or dtsflow.open in a program that brings the gradients together."
            )
        return Training(self.step.init(setting), setting)


class Training:
    """A training at work; satisfies Resumable."""

    def __init__(self, learner: Learner, setting: Setting) -> None:
        self._learner = learner
        self._folder = setting.folder
        self._losses: dict[int, list[float]] = {}  # by epoch: their sum, and how many
        self._evaluations: list[dict[str, Any]] = []
        self._written = 0  # lines of the file
        self._sums: dict[str, float] = {}  # of the evaluation at work
        self._count = 0
        if setting.start is not None:
            self._go_on(setting.start)
        elif self._folder is not None:
            for left in self._folder.glob(_LEARNER.format("*", "*", "*")):
                left.unlink()
            (self._folder / LOSSES).write_text("")

    def take(self, batch: Batch) -> None:
        """Train on `batch`, or evaluate it.

        Raises:
            TrainError: The loss is not a number.
        """
        if batch.phase != TRAIN:
            for name, value in self._learner.evaluate(batch).items():
                self._sums[name] = self._sums.get(name, 0.0) + float(value)
            self._count += int(np.count_nonzero(batch.valid))
            return
        loss = float(self._learner.step(batch))
        if not math.isfinite(loss):
            raise TrainError(
                f"the loss is {loss} at epoch {batch.epoch}, step {batch.step}. Choose a smaller "
                "learning rate, or look at the batch with consumer=sheet."
            )
        self._tell({"phase": TRAIN, "epoch": batch.epoch, "step": batch.step, "loss": loss})

    def finish(self, phase: str, epoch: int) -> str:
        """Sum up a pass: the mean loss of a training, the means of an evaluation."""
        if phase == TRAIN:
            return f"loss {self._mean_loss(epoch):.4f}"
        means = {name: total / max(1, self._count) for name, total in self._sums.items()}
        self._sums, self._count = {}, 0
        self._tell({"phase": phase, "epoch": epoch, **means})
        return ", ".join(f"{name} {value:.4f}" for name, value in means.items())

    def results(self) -> dict[str, Any]:
        """Under `train`: each epoch's mean loss, all evaluations, each phase's last.

        What the learner tells of itself stands beside them.
        """
        told = self._learner.results() if isinstance(self._learner, Telling) else {}
        losses = [{"epoch": epoch, "loss": self._mean_loss(epoch)} for epoch in self._losses]
        last = {line["phase"]: line for line in self._evaluations}
        return {"train": {**told, "losses": losses, "evaluations": self._evaluations, "last": last}}

    def save(self, start: Start) -> None:
        """Keep the learner as it is now, to go on at `start`; whole or not at all."""
        if self._folder is None:
            return
        learner = self._learner.state()
        head = {
            "sha256": hashlib.sha256(learner).hexdigest(),
            "sums": self._sums,
            "count": self._count,
            "lines": self._written,
        }
        path = self._path(start)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        with draft.open("wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + learner)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)

    def saved(self, start: Start) -> None:
        """Forget what was kept for other places: the run goes on at `start` now."""
        if self._folder is not None:
            own = self._path(start)
            for left in self._folder.glob(_LEARNER.format("*", "*", "*")):
                if left != own:
                    left.unlink()

    def _path(self, start: Start) -> Path:
        assert self._folder is not None
        return self._folder / _LEARNER.format(start.phase, start.epoch, start.step)

    def _go_on(self, start: Start) -> None:
        folder = start.folder
        path = (
            None
            if folder is None
            else folder / _LEARNER.format(start.phase, start.epoch, start.step)
        )
        if path is None or not path.is_file():
            raise ConfigError(
                f"resume: there is no learner for {start.phase}, epoch {start.epoch}, step "
                f"{start.step} beside the state ({path}). Go on with consumer=count, or start "
                "anew with resume=never."
            )
        head, _, learner = path.read_bytes().partition(b"\n")
        try:
            known = json.loads(head)
            whole = known["sha256"] == hashlib.sha256(learner).hexdigest()
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"resume: {path} is no learner: {error}.") from error
        if not whole:
            raise ConfigError(
                f"resume: {path} is damaged: its SHA-256 is another. Start anew with resume=never."
            )
        self._learner.load(learner)
        self._sums, self._count = known["sums"], known["count"]
        lines = (path.parent / LOSSES).read_text().splitlines()[: known["lines"]]
        if self._folder is not None:
            (self._folder / LOSSES).write_text("")
        for line in lines:
            self._tell(json.loads(line))

    def _tell(self, line: dict[str, Any]) -> None:
        if line["phase"] == TRAIN:
            known = self._losses.setdefault(line["epoch"], [0.0, 0])
            known[0] += line["loss"]
            known[1] += 1
        else:
            self._evaluations.append(line)
        self._written += 1
        if self._folder is not None:
            with (self._folder / LOSSES).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def _mean_loss(self, epoch: int) -> float:
        total, count = self._losses.get(epoch, [0.0, 1])
        return total / count

"""The state of a run: where it goes on, and what must not have changed till then.

The progress of a run is here, too, and the wish that it end.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from dtsflow.errors import ClosedError, ConfigError
from dtsflow.station.double_buffer import DoubleBuffer

STATE = "state.json"
MAX_BYTES = 1024
DIGITS = 16  # hexadecimal, of the digest of one item of a fingerprint

_NAME = re.compile(r"[A-Za-z_]\w{0,31}")
_DIGEST = re.compile(rf"[0-9a-f]{{{DIGITS}}}")


@dataclass(frozen=True, slots=True)
class State:
    """The place where a run goes on; it fits into any checkpoint.

    Attributes:
        phase: Name of the phase.
        epoch: Epoch of the next batch.
        step: The first batch of that epoch that was not handed out.
        fingerprint: For each thing that the order or the pixels depend on, a digest:
            what `Plan.fingerprint` says.
    """

    phase: str
    epoch: int
    step: int
    fingerprint: Mapping[str, str]

    def to_json(self) -> str:
        """Return the state as text, less than `MAX_BYTES` of it."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, where: object = "This text") -> "State":
        """Read what `to_json` wrote; `where` says in messages where it was.

        Raises:
            ConfigError: It is anything else.
        """
        if len(text) > MAX_BYTES:
            raise not_a_state(where, f"it is longer than {MAX_BYTES} bytes")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:  # what it raises for hostile text
            raise not_a_state(where, f"it is no JSON: {error}") from error
        if wrong := _wrong(found):
            raise not_a_state(where, wrong)
        return cls(**found)

    @classmethod
    def load(cls, path: Path) -> "State":
        """Read a state's file.

        Raises:
            ConfigError: The file is missing, or it is not a state.
        """
        try:
            if not path.is_file():
                raise ConfigError(
                    f"resume: there is no file {path}. A finished run has no state; name the "
                    f"folder or the {STATE} of one that was stopped."
                )
            with path.open("rb") as file:
                return cls.from_json(file.read(MAX_BYTES + 1), path)
        except OSError as error:
            raise ConfigError(f"resume: {path} cannot be read: {error.strerror}.") from error


def rank_state(rank: int | str) -> str:
    """Name of the file in which a rank other than 0 keeps its state."""
    return f"state.rank{rank}.json"


def states_beside(path: Path) -> list[Path]:
    """Return the file `path` of rank 0, and those that other ranks have beside it."""
    return [path, *sorted(path.parent.glob(rank_state("*")))] if path.name == STATE else [path]


def state_at(place: str) -> Path:
    """Return the file that `resume: PATH` means: itself, or the state in a run folder.

    Raises:
        ConfigError: The path makes no sense to the system.
    """
    try:
        path = Path(place).expanduser()
        return path / STATE if path.is_dir() else path
    except (OSError, RuntimeError) as error:  # too long a name; no such user
        raise ConfigError(f"resume: {place[:80]!r} cannot be looked up: {error}.") from error


def _wrong(found: Any) -> str:
    """Return what is wrong with a parsed state; empty if nothing is."""
    names = [field.name for field in fields(State)]
    if not isinstance(found, dict) or set(found) != set(names):
        return f"it must hold {', '.join(names)} and nothing else"
    if not _matches(_NAME, found["phase"]):
        return "its phase is no name"
    for name in ("epoch", "step"):
        if type(found[name]) is not int or not 0 <= found[name] <= 1 << 32:
            return f"its {name} is no number from 0 to 2**32"
    items = found["fingerprint"]
    if not isinstance(items, dict) or not all(
        _matches(_NAME, name) and _matches(_DIGEST, digest) for name, digest in items.items()
    ):
        return f"its fingerprint must give each name {DIGITS} hexadecimal digits"
    return ""


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def not_a_state(where: object, why: str) -> ConfigError:
    """Give the error for what is found at `where` instead of a state."""
    return ConfigError(
        f"resume: {where} is no state of a run ({why}). Name another, or start anew with "
        "resume=never."
    )


class PassProgress:
    """The progress of one pass over an epoch.

    Attributes:
        phase: The phase.
        epoch: The epoch.
        step: The first batch that is not finished.
        in_hand: Whether that batch is with the consumer now.
    """

    __slots__ = ("epoch", "in_hand", "phase", "step")

    def __init__(self, phase: str, epoch: int, step: int) -> None:
        self.phase, self.epoch, self.step = phase, epoch, step
        self.in_hand = False

    def hand_out(self) -> None:
        """Say that batch `step` goes to the consumer."""
        self.in_hand = True

    def finish(self) -> None:
        """Say that the consumer asked for the batch behind the one in hand."""
        self.step += 1
        self.in_hand = False

    def fail(self) -> None:
        """Say that the use of the batch in hand, if there is one, did not end well."""
        self.in_hand = False

    @property
    def handed_out(self) -> int:
        """Return the first batch that was not handed out, or whose use failed."""
        return self.step + self.in_hand


class StopRequest:
    """The wish that a run end after the batch in hand; any thread may have it.

    Attributes:
        asked: Whether somebody asked for it.
        ended: Whether a pass ended early because of it, or did not begin.
    """

    def __init__(self) -> None:
        self.asked = False
        self.ended = False
        self._double_buffer: DoubleBuffer | None = None

    def wish(self) -> None:
        """Let no more batches be handed out; takes no lock, for signal handlers.

        A loop that waits for its batch learns of it only by `ask`.
        """
        self.asked = True

    def ask(self) -> None:
        """Let the pass at work end, also one that waits, and every later one at once.

        It takes locks, so a signal handler must leave this to another thread.
        """
        self.asked = True
        if (double_buffer := self._double_buffer) is not None:
            double_buffer.close()

    def watch(self, double_buffer: DoubleBuffer) -> None:
        """Make `double_buffer` the pass at work; `check` must follow."""
        self._double_buffer = double_buffer

    def check(self) -> None:
        """Go on only if nobody asked for the end.

        Raises:
            ClosedError: The run is to end.
        """
        if self.asked:
            raise ClosedError("The run was stopped: open the plan again to read more batches.")

    def leave(self, double_buffer: DoubleBuffer) -> None:
        """Say that the pass has ended."""
        if self._double_buffer is double_buffer:
            self._double_buffer = None

    def ends(self) -> bool:
        """Tell whether a pass that was closed ends for this reason.

        Remembered if so.
        """
        self.ended = self.ended or self.asked
        return self.asked

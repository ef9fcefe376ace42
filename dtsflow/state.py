"""The state of a run: where it goes on, and what must not have changed till then."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtsflow.errors import ConfigError

if TYPE_CHECKING:
    from dtsflow.plan import Plan

STATE = "state.json"
MAX_BYTES = 1024
DIGITS = 16  # hexadecimal, of the digest of one item of a fingerprint

_NAME = re.compile(r"[A-Za-z_]\w{0,31}")
_DIGEST = re.compile(rf"[0-9a-f]{{{DIGITS}}}")


@dataclass(frozen=True, slots=True)
class State:
    """Where a run goes on; it fits into any checkpoint.

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
        """The state as text, less than `MAX_BYTES` of it."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, where: object = "This text") -> "State":
        """Read what `to_json` wrote; `where` says in messages where it was.

        Raises:
            ConfigError: It is anything else.
        """
        if len(text) > MAX_BYTES:
            raise _refusal(where, f"it is longer than {MAX_BYTES} bytes")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:  # what it raises for hostile text
            raise _refusal(where, f"it is no JSON: {error}") from error
        if wrong := _wrong(found):
            raise _refusal(where, wrong)
        return cls(**found)

    @classmethod
    def load(cls, path: Path) -> "State":
        """Read a state's file.

        Raises:
            ConfigError: There is none, or it is no state.
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

    def check(self, plan: "Plan", where: object) -> None:
        """Refuse to go on from here with `plan` where that would not be the same run.

        Raises:
            ConfigError: Something that the order or the pixels depend on is another;
                names it. Or the plan has no such phase or step.
        """
        now = plan.fingerprint()
        names = {**now, **self.fingerprint}  # also what only another version knows
        if changed := [name for name in names if now.get(name) != self.fingerprint.get(name)]:
            raise ConfigError(
                f"resume: {where} is the state of a run with another {', '.join(changed)}: its "
                "batches would not be the ones that are left. Configure what it had (config.yaml "
                "beside it says so), or start anew with resume=never."
            )
        if self.phase not in plan.phases:
            raise _refusal(where, f"there is no phase {self.phase!r}")
        steps = plan.phases[self.phase].order.steps
        if self.step >= steps:
            raise _refusal(where, f"step {self.step} of an epoch with {steps}")


def rank_state(rank: int | str) -> str:
    """Name of the file in which a rank other than 0 keeps its state."""
    return f"state.rank{rank}.json"


def states_beside(path: Path) -> list[Path]:
    """The file `path` of rank 0, and those that other ranks have beside it."""
    return [path, *sorted(path.parent.glob(rank_state("*")))] if path.name == STATE else [path]


def state_at(place: str) -> Path:
    """The file that `resume: PATH` means: itself, or the state in a run folder.

    Raises:
        ConfigError: The path makes no sense to the system.
    """
    try:
        path = Path(place).expanduser()
        return path / STATE if path.is_dir() else path
    except (OSError, RuntimeError) as error:  # too long a name; no such user
        raise ConfigError(f"resume: {place[:80]!r} cannot be looked up: {error}.") from error


def _wrong(found: Any) -> str:
    """What is wrong with a parsed state; empty if nothing is."""
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


def _refusal(where: object, why: str) -> ConfigError:
    return ConfigError(
        f"resume: {where} is no state of a run ({why}). Name another, or start anew with "
        "resume=never."
    )

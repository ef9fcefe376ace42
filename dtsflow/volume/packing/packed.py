"""What a pack came to."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Packed:
    """What was written. Images, rejects and `left_out` are all that was found."""

    volumes: tuple[Path, ...]
    images: int
    classes: int
    blocks: int
    bytes: int
    rejects: int
    left_out: int = 0

    @property
    def path(self) -> Path:
        """The volume, or the first of several."""
        return self.volumes[0]

    def to_text(self) -> str:
        """It as one line."""
        return json.dumps({**asdict(self), "volumes": list(map(str, self.volumes))})

    @classmethod
    def from_text(cls, text: str) -> "Packed":
        """Read what `to_text` wrote."""
        told = json.loads(text)
        return cls(**{**told, "volumes": tuple(map(Path, told["volumes"]))})

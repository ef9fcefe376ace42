"""Notes that processes leave each other as small files, whole or not at all."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_note(path: Path, note: Mapping[str, Any]) -> None:
    """Write a note, in place of one that is there."""
    _draft(path, note).replace(path)


def write_first(path: Path, note: Mapping[str, Any]) -> bool:
    """Write a note unless there is one; of several processes, one is told True."""
    draft = _draft(path, note)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def read_note(path: Path) -> dict[str, Any] | None:
    """The note at `path`; None: there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:  # a share may also say that the file it had is stale now
        return None
    note: dict[str, Any] = json.loads(text)
    return note


def _draft(path: Path, note: Mapping[str, Any]) -> Path:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(dict(note)), encoding="utf-8")
    return draft

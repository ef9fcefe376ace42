"""Making again what the packer made, from what the index records of it."""

from collections.abc import Callable, Mapping
from typing import Any

from dtsflow.errors import PackError, VolumeError
from dtsflow.volume.extension import Extension
from dtsflow.volume.format import BLOCK_ROOM
from dtsflow.volume.packing.encode import Unusable
from dtsflow.volume.packing.prepare import Preparer
from dtsflow.volume.packing.recipe import Recipe

Remake = Callable[[bytes], bytes]


def recorded_remake(extension: Extension | None, level: int) -> Remake | None:
    """What turns a source's bytes into the stored ones; None if nothing tells how.

    The result raises VolumeError for bytes that are no image.
    """
    if extension is None:
        return None
    preparer = _preparer(extension.about.options, level)
    if preparer is None:
        return None

    def remake(data: bytes) -> bytes:
        try:
            return preparer.make(data).data
        except (Unusable, PackError) as verdict:
            raise VolumeError(f"a source cannot be packed again: {verdict}") from verdict

    return remake


def _preparer(options: Mapping[str, Any], level: int) -> Preparer | None:
    facts, layout = options.get("recipe"), options.get("layout")
    if not isinstance(layout, dict) or options.get("level") != level:
        return None
    try:
        recipe = None if facts is None else Recipe.from_facts(facts)
    except ValueError:
        return None
    reencodes = layout.get("oversize") == "reencode"
    return Preparer(
        recipe=recipe,
        capacity=BLOCK_ROOM[level],
        reencodes=reencodes,
        restarts=options.get("restarts") is True,
    )

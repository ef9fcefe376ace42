"""Blocks that lie whole in the wrong places, put back."""

from collections.abc import Callable, Mapping

Read = Callable[[int], bytes]
Write = Callable[[int, bytes], None]


def move(sources: Mapping[int, int], read: Read, write: Write) -> None:
    """Give every place its block; `sources` says for each place where that lies now.

    No block is overwritten before it was read. Of a ring of places, one block is held
    in memory meanwhile: a machine that stops just then loses it.
    """
    pending = dict(sources)
    held: dict[int, bytes] = {}
    while pending:
        place = next((one for one in pending if one not in pending.values()), None)
        if place is None:  # only rings are left
            place = next(iter(pending))
            held[place] = read(place)
            for other, source in pending.items():
                if source == place:
                    pending[other] = -1 - place  # a name for what is held
        source = pending.pop(place)
        write(place, held.pop(-1 - source) if source < 0 else read(source))

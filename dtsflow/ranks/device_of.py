"""Which device of its node a rank uses: one process per device."""

from dtsflow.errors import RanksError
from dtsflow.ranks.rank import Rank


def device_of(rank: Rank, devices: int) -> int:
    """The number of this rank's device among the `devices` that it sees.

    A launcher that shows each process one device of its own leaves no choice.

    Raises:
        RanksError: There are more processes on the node than devices.
    """
    if devices == 1 and rank.local_size > 1:
        return 0
    if rank.local_index >= devices:
        raise RanksError(
            f"Rank {rank.index} is process {rank.local_index} of {rank.local_size} on its node "
            f"(counted from 0), and sees {devices} devices. Start one process per device: at "
            f"most {devices} a node."
        )
    return rank.local_index

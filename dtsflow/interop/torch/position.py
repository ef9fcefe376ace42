"""Where a loader is: the batches it has handed out, and the pass that comes next."""


class Position:
    """Counts passes as epochs, and the batches of the one at work.

    Attributes:
        next: Epoch and step that the next pass begins at.
        reached: Epoch and step of the first batch that was not handed out.
    """

    __slots__ = ("next", "reached")

    def __init__(self, epoch: int, step: int) -> None:
        self.next = self.reached = (epoch, step)

    def begin(self) -> None:
        """Say that a pass begins; the one after it is the next epoch's."""
        self.reached = self.next
        self.next = (self.next[0] + 1, 0)

    def hand_out(self, epoch: int, step: int, *, steps: int) -> None:
        """Say that batch `step` of an epoch of `steps` was handed out."""
        self.reached = (epoch, step + 1) if step + 1 < steps else (epoch + 1, 0)

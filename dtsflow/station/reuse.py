"""Which epochs the rows of a decoded sample are made for, and where each is kept."""

from dataclasses import dataclass

EPOCHS = 1 << 32  # that a random address tells apart


@dataclass(frozen=True, slots=True)
class Reuse:
    """How a phase reuses what it decoded.

    Attributes:
        factor: K of SDMP: a decoded sample goes through the chain for all epochs that
            are left of its group, those with equal ⌊epoch / K⌋.
        always: CPVS: rows are the same in all epochs, so each is made once.
    """

    factor: int = 1
    always: bool = False

    @property
    def slots(self) -> int:
        """Rows that are kept of each sample; 0: nothing is reused."""
        return 1 if self.always else self.factor - 1

    def group(self, epoch: int) -> int:
        """The group of an epoch; rows are kept within one."""
        return 0 if self.always else epoch // self.factor

    def slot(self, epoch: int) -> int | None:
        """Where the rows of an epoch are kept; None: they never are."""
        if self.always:
            return 0
        place = epoch % self.factor
        return place - 1 if place else None

    def ahead(self, epoch: int) -> range:
        """The epochs whose rows are kept when a sample of `epoch` is decoded."""
        if self.always:
            return range(epoch, epoch + 1)
        end = (epoch // self.factor + 1) * self.factor
        return range(epoch + 1, min(end, EPOCHS))

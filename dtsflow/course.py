"""How far a run has come, and the wish that it end."""

from dtsflow.errors import ClosedError
from dtsflow.station.turns import Turns


class Place:
    """Where one pass over an epoch is.

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
        """The first batch that was not handed out, or whose use failed."""
        return self.step + self.in_hand


class Stopping:
    """The wish that a run end after the batch in hand; any thread may have it.

    Attributes:
        asked: Whether somebody asked for it.
        ended: Whether a pass ended early because of it, or did not begin.
    """

    def __init__(self) -> None:
        self.asked = False
        self.ended = False
        self._turns: Turns | None = None

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
        if (turns := self._turns) is not None:
            turns.close()

    def watch(self, turns: Turns) -> None:
        """Make `turns` the pass at work; `check` must follow."""
        self._turns = turns

    def check(self) -> None:
        """Go on only if nobody asked for the end.

        Raises:
            ClosedError: The run is to end.
        """
        if self.asked:
            raise ClosedError("The run was stopped: open the plan again to read more batches.")

    def leave(self, turns: Turns) -> None:
        """Say that the pass has ended."""
        if self._turns is turns:
            self._turns = None

    def ends(self) -> bool:
        """Whether a pass that was closed ends for this reason; remembered if so."""
        self.ended = self.ended or self.asked
        return self.asked

"""A chain in two parts: up to an image that can be kept, and what is done to it."""

from dataclasses import dataclass

from dtsflow.errors import PlanError
from dtsflow.po.branch import Branch
from dtsflow.po.erasing import RandomErasing
from dtsflow.po.normalize import Normalize
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType


@dataclass(frozen=True, slots=True)
class CutChain:
    """A chain that is cut before what erases, normalises or casts.

    The head makes an UINT8 image, the tail makes of it what the whole chain would.

    Attributes:
        head: The operations before the cut.
        tail: Those behind it.
    """

    head: Branch
    tail: Branch

    @classmethod
    def of(cls, branch: Branch) -> "CutChain":
        """Cut a checked chain.

        Raises:
            PlanError: The images at the cut differ in size, so no room fits them all.
        """
        place = next(
            (
                position
                for position, operation in enumerate(branch.operations)
                if isinstance(operation, Normalize | RandomErasing)
                or branch.specs[position + 1].dtype is not DType.UINT8
            ),
            len(branch.operations),
        )
        spec = branch.specs[place]
        if spec.height is None or spec.width is None:
            raise PlanError(
                f"the images that {type(branch.operations[place]).__name__} gets are {spec}, of "
                "different sizes, and only those of one size can be kept for later epochs. Put "
                "an operation that makes one size, as Resize with fit: exact, before it."
            )
        return cls(
            head=Branch(branch.operations[:place], branch.specs[: place + 1]),
            tail=Branch(branch.operations[place:], branch.specs[place:], branch.first + place),
        )

    @property
    def kept(self) -> ImageSpec:
        """The image at the cut."""
        return self.head.out_spec

"""What an operation on colours can take."""

from dtsflow.errors import PlanError
from dtsflow.spec import ImageSpec

GRAY, RGB = 1, 3


def require_rgb(spec: ImageSpec, why: str) -> None:
    """Refuse images without colours.

    Raises:
        PlanError: There aren't three channels.
    """
    if spec.channels != RGB:
        raise PlanError(
            f"{why} takes colours, and the images have {spec.channels} channel(s), not 3. "
            "Leave it out for these images."
        )


def require_gray_or_rgb(spec: ImageSpec) -> None:
    """Refuse images of another kind.

    Raises:
        PlanError: There are neither one nor three channels.
    """
    if spec.channels not in (GRAY, RGB):
        raise PlanError(
            f"the images have {spec.channels} channels. It takes 1 (gray) or 3 (RGB): leave "
            "it out for these images."
        )

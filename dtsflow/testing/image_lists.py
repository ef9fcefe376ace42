"""The check of a plugin for images in files: of its loader, which lists them."""

from collections.abc import Sequence

from dtsflow.po.records import check_columns
from dtsflow.testing.sameness import pickled
from dtsflow.volume.datasets.image_list import ImageList, ImageLoader
from dtsflow.volume.datasets.images import RawSet


def check_image_loader(loader: ImageLoader, others: Sequence[str] = ()) -> RawSet:
    """Check an image loader on a small data set, and return the set that a run reads.

    The loader pickles and lists the same each time. All files are there, labels are
    classes, and a batch can have its columns beside fields of the names `others`.

    Raises:
        AssertionError: It does not.
        DtsflowError: What it lists is refused, as a run would; says what and where.
    """
    name = type(loader).__name__
    assert isinstance(loader, ImageLoader), f"{name} has no method list_images()"
    listed, again = loader.list_images(), pickled(loader).list_images()
    assert isinstance(listed, ImageList), f"{name} lists {type(listed).__name__}, not ImageList"
    found, other = listed.image_set(), again.image_set()
    assert list(found.runs.names) == list(other.runs.names), f"{name} lists others each time"
    assert found.fingerprint() == other.fingerprint(), f"{name}: labels or columns differ each time"
    check_columns([column.field for column in found.columns], others)
    places = {listed.where(number) for number in range(len(listed.names))}
    assert len(places) == len(listed.names), f"{name} calls two entries by one place"
    return found

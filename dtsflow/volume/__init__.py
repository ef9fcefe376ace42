"""Bytes at rest: reading, checking and writing DTS volumes.

`Dts` and `Synthetic` are the sources a configuration may name. `open` takes single
samples, `scan` describes a data set, `pack_folder` makes a volume from a folder of
images, and `write_photos` makes such a folder.
"""

from dtsflow.volume.access import open_volumes as open  # noqa: A004  # volume.open(path) reads as what it does
from dtsflow.volume.dts import Dts
from dtsflow.volume.packing import pack_folder
from dtsflow.volume.photos import write_photos
from dtsflow.volume.scan import scan
from dtsflow.volume.synthetic import Synthetic

__all__ = ["Dts", "Synthetic", "open", "pack_folder", "scan", "write_photos"]

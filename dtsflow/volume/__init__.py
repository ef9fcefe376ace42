"""Bytes at rest: reading, checking and writing DTS volumes.

`Dts`, `Raw` and `Synthetic` are the sources a configuration may name. `open` takes
single samples, `scan` describes a data set, `pack` makes volumes from images as a
`Packing` says, `export` writes them back, `verify` names every damage and `repair`
mends it. `write_photos` makes a folder of images.
"""

from dtsflow.volume.access import open_volumes as open  # noqa: A004  # volume.open(path) reads as what it does
from dtsflow.volume.dts import Dts
from dtsflow.volume.exporting import export
from dtsflow.volume.packing.options import Layout, Packing
from dtsflow.volume.packing.pack import estimate, pack
from dtsflow.volume.packing.recipe import Encoding
from dtsflow.volume.photos import write_photos
from dtsflow.volume.raw import Raw
from dtsflow.volume.repairing.repair import repair
from dtsflow.volume.scan import scan
from dtsflow.volume.source.choice import Choice
from dtsflow.volume.source.source_format import SourceFormat
from dtsflow.volume.synthetic import Synthetic
from dtsflow.volume.verifying.verify import verify

__all__ = [
    "Choice",
    "Dts",
    "Encoding",
    "Layout",
    "Packing",
    "Raw",
    "SourceFormat",
    "Synthetic",
    "estimate",
    "export",
    "open",
    "pack",
    "repair",
    "scan",
    "verify",
    "write_photos",
]

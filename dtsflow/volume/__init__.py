"""Bytes at rest: reading, checking and writing DTS volumes.

`Dts`, `Raw` and `Synthetic` are the sources a configuration may name. `open` takes
single samples, `scan` describes a data set, `pack` makes volumes from images as a
`Packing` says, `export` writes them back, `verify` names every damage and `repair`
mends it. `write_photos` makes a folder of images.
"""

from dtsflow.volume.datasets.access import open_volumes as open  # noqa: A004  # volume.open(path) reads as what it does
from dtsflow.volume.datasets.config import Dts, Raw
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.synthetic import Synthetic, write_photos
from dtsflow.volume.exporting.export import export
from dtsflow.volume.packing.options import Encoding, Layout, Packing
from dtsflow.volume.packing.pack import estimate, pack
from dtsflow.volume.repairing.repair import repair
from dtsflow.volume.source.base import SourceFormat
from dtsflow.volume.source.select import Choice
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

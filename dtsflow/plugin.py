"""What a plugin is made of: all that its code needs of dtsflow, under one name.

A plugin for a new kind of data set has a loader, which lists records and reads them,
and a parser, which turns many of them at once into the named arrays of a batch:

    from dtsflow.plugin import DType, Field, PartFiles, configurable

    @configurable
    class Lines:
        '''The lines of numbered files; satisfies Loader.'''

        folder: str
        parts: int = 1

        def records(self):
            return PartFiles.numbered(self.folder, self.parts).lines()

    @configurable
    class Numbers:
        '''One number a line; satisfies Parser.'''

        fields = (Field("x", (), DType.FP64),)

        def start(self):
            return self

        def parse(self, records, out):
            out["x"][:] = [float(bytes(record)) for record in records]

A plugin for images in files has an image loader, which lists them with their labels and
what else is known of each (`ImageLoader`); they are decoded as all images are.

Its classes satisfy protocols and inherit from none. `dtsflow.testing` checks that they
keep the contracts, and `dtsflow new-plugin` writes a project to begin with.
"""

from dtsflow.arena.batch import Batch
from dtsflow.config.configurable import configurable
from dtsflow.consumer.consumer import Consumer, Setting, Sink
from dtsflow.consumer.train import Learner, Step, Telling
from dtsflow.decode.decoder import Decoder, Encoded, Facts
from dtsflow.decode.parser import Arrays, Parser, Parsing
from dtsflow.errors import ConfigError, DecodeError, PlanError, VolumeError
from dtsflow.pipeline.phase import Decode
from dtsflow.po.operation import NOTHING, Image, Operation, Params, Pixels, Row, Sizes
from dtsflow.po.records import RecordOperation
from dtsflow.seed.draws import Draws
from dtsflow.spec import Field, ImageSpec
from dtsflow.tensor.dtype import DType
from dtsflow.volume.data_set import Column, Split
from dtsflow.volume.datasets.image_list import ImageList, ImageLoader, folder_at
from dtsflow.volume.datasets.lines import PartFiles
from dtsflow.volume.datasets.records import (
    Holding,
    IndexedRecords,
    Loader,
    Measured,
    RecordReader,
    Records,
    StreamedRecords,
)
from dtsflow.volume.source.labels import read_classes

__all__ = [
    "NOTHING",
    "Arrays",
    "Batch",
    "Column",
    "ConfigError",
    "Consumer",
    "DType",
    "Decode",
    "DecodeError",
    "Decoder",
    "Draws",
    "Encoded",
    "Facts",
    "Field",
    "Holding",
    "Image",
    "ImageList",
    "ImageLoader",
    "ImageSpec",
    "IndexedRecords",
    "Learner",
    "Loader",
    "Measured",
    "Operation",
    "Params",
    "Parser",
    "Parsing",
    "PartFiles",
    "Pixels",
    "PlanError",
    "RecordOperation",
    "RecordReader",
    "Records",
    "Row",
    "Setting",
    "Sink",
    "Sizes",
    "Split",
    "Step",
    "StreamedRecords",
    "Telling",
    "VolumeError",
    "configurable",
    "folder_at",
    "read_classes",
]

"""Every error dtsflow raises on purpose, as one tree.

    DtsflowError
    ├── ConfigError            the configuration makes no sense; names the config path
    ├── PlanError              the parts are fine, their combination is not
    │   └── MemoryPlanError    a memory plan was built or used wrongly, or is too big
    ├── VolumeError            a file on disk is not what it should be; names the file
    │   ├── HeaderError        the first 144 bytes, or the file's size
    │   ├── BlockError         a 16 MiB block; names the block
    │   ├── SetError           the files do not make one whole data set
    │   └── PackError          a data set could not be written
    ├── DecodeError            one stored sample is not a readable image
    ├── StationError           the hand-over between workers and consumer
    │   ├── StallError         one side waited longer than its limit; names that side
    │   └── ClosedError        the run, or this pass over an epoch, has ended
    ├── TensorFileError        a file of tensors cannot be used; names file and tensor
    ├── RanksError             launcher, communicator and configuration disagree
    │   └── CommonError        what all ranks of a run raise together; one tells of it
    ├── TrainError             a training cannot go on, as when a loss is not a number
    └── MissingPartError       an optional library is absent; names what to install

A caller who wants "anything wrong with my files" catches `VolumeError`; the command
line turns any `DtsflowError` into one message and no traceback.
"""


class DtsflowError(Exception):
    """The root: a message that says what happened, where, and what to do."""


class ConfigError(DtsflowError):
    """A configuration value, key or name was refused."""


class PlanError(DtsflowError):
    """A pipeline cannot be planned as configured."""


class MemoryPlanError(PlanError):
    """A memory plan was built in the wrong order, is inconsistent, or is too big."""


class VolumeError(DtsflowError):
    """A volume on disk cannot be used."""


class HeaderError(VolumeError):
    """A volume's header, or its size against its header, is wrong."""


class BlockError(VolumeError):
    """A block of a volume is damaged."""


class SetError(VolumeError):
    """Several files were named and they do not make one whole data set."""


class PackError(VolumeError):
    """A data set could not be packed into volumes."""


class DecodeError(DtsflowError):
    """The bytes of one sample are not an image that can be decoded."""


class StationError(DtsflowError):
    """The transfer station cannot go on."""


class StallError(StationError):
    """One side of the station made no progress within its limit."""


class ClosedError(StationError):
    """Something was asked of a run, or of a pass over an epoch, that has ended."""


class TensorFileError(DtsflowError):
    """A file of tensors cannot be written, read or trusted."""


class RanksError(DtsflowError):
    """The processes are not what the configuration says, or do not come together."""


class CommonError(RanksError):
    """Ranks disagree, or one of them failed before they began; every rank raises it.

    Its cause is the error of this rank, if it had one.

    Attributes:
        is_told_here: True on the one rank that is to print it.
    """

    def __init__(self, message: str, *, is_told_here: bool = True) -> None:
        super().__init__(message)
        self.is_told_here = is_told_here


class TrainError(DtsflowError):
    """A training cannot go on."""


class MissingPartError(DtsflowError):
    """An optional library that this configuration needs is not installed."""

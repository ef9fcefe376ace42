"""What is different in a phase whose data set is one of records."""

from dtsflow.decode.parse import Parse
from dtsflow.errors import PlanError
from dtsflow.po.chain import Chain
from dtsflow.po.named_fields import check_fields
from dtsflow.po.record_chain import Fields, RecordChain
from dtsflow.po.record_program import RecordProgram
from dtsflow.ranks.rank import Rank
from dtsflow.reader.order import Order, Shuffle, Tail
from dtsflow.station.records import RecordEngine
from dtsflow.volume.data_set import DataSet
from dtsflow.volume.record_set import RecordSet
from dtsflow.volume.split import Split


def record_fields(decode: object, po: object, volumes: DataSet, where: str) -> tuple[Fields, ...]:
    """The fields that a parser leaves, then those that each operation leaves.

    None for a set of images. `where` is the chain's path in the configuration.

    Raises:
        PlanError: The set is of records and the stages are not, or the reverse; or a
            stage refuses its input.
    """
    if not isinstance(volumes, RecordSet):
        _refuse_records(decode, po)
        return ()
    if not isinstance(decode, Parse):
        raise PlanError(
            f"{volumes.loader} gives records, and decode={type(decode).__name__} decodes images. "
            "Configure decode with a parser: _target_: dtsflow.decode.Parse."
        )
    if isinstance(po, Chain) and (po.operations or po.views or po.batch):
        raise PlanError(
            f"{where}: {volumes.loader} gives records, and these operations work on images. Leave "
            "them out, or configure po with _target_: dtsflow.po.RecordChain."
        )
    try:
        first = check_fields(decode.parser.fields)
    except PlanError as error:
        raise PlanError(f"decode.parser ({decode.describe()}): {error}") from error
    return tuple(_chain(po).fields(first, where=where))


def record_engine(decode: object, po: object, records: RecordSet) -> RecordEngine:
    """What one worker fills rows with."""
    fields = record_fields(decode, po, records, "po.operations")
    assert isinstance(decode, Parse)
    program = RecordProgram(_chain(po).operations, fields)
    return RecordEngine(decode.parser.start(), program, fields[-1])


def record_shuffle(asked: Shuffle, records: RecordSet, tail: Tail) -> Shuffle:
    """The value of `reader.shuffle` that is in force: as far as the loader allows.

    Raises:
        PlanError: More was asked for, or a stream shall begin anew.
    """
    if records.is_stream and tail is Tail.WRAP:
        raise PlanError(
            f"tail=wrap delivers records again, and {records.loader} gives them in a stream, "
            "once. Use tail=pad or tail=drop."
        )
    buffer = records.records.buffer
    if asked is Shuffle.NONE:
        return asked
    if buffer is None:
        return Shuffle.FULL
    if asked is Shuffle.FULL:
        raise PlanError(
            f"shuffle=full permutes all records, and {records.loader} allows "
            f"{f'only {buffer:,} neighbours' if buffer else 'none'} to be shuffled. Use "
            "shuffle=blocks, or give its loader a larger buffer."
        )
    return Shuffle.WINDOWS if buffer else Shuffle.NONE


def split_of_set(volumes: DataSet) -> Split:
    """What ranks are given of a global batch: of images, a share of the rows."""
    return volumes.split if isinstance(volumes, RecordSet) else Split.ROWS


def own_lanes(volumes: DataSet, order: Order, rank: Rank) -> range:
    """The lanes that fill the rows of a rank: its share, or all if they are broadcast.

    Raises:
        PlanError: The ranks cannot share the lanes.
    """
    if split_of_set(volumes) is Split.BROADCAST:
        return range(order.lanes)
    return order.lanes_of(rank.index, rank.size)


def _chain(po: object) -> RecordChain:
    return po if isinstance(po, RecordChain) else RecordChain()


def _refuse_records(decode: object, po: object) -> None:
    for name, is_for_records in (
        ("decode", isinstance(decode, Parse)),
        ("po", isinstance(po, RecordChain)),
    ):
        if is_for_records:
            raise PlanError(
                f"the data set holds images, and {name} is for records. Choose decode=auto and a "
                "po of images, or a volume whose loader gives records."
            )

import numpy as np

from dtsflow.arena.batch import Batch
from dtsflow.consumer.consumer import Consumer, Count, PhaseSetting, Setting


def test_it_touches_no_array_of_a_batch_and_reports_nothing() -> None:
    locked = np.zeros((2, 4, 4, 3), np.uint8)
    locked.flags.writeable = False
    rows = np.zeros(2, np.int64)
    batch = Batch(
        images=locked,
        padded=locked,
        labels=rows.astype(np.int32),
        valid=rows > 0,
        sample_ids=rows,
        phase="train",
        epoch=0,
        step=0,
        first_row=0,
        zone=0,
    )
    count = Count()
    assert isinstance(count, Consumer)
    sink = count.open(Setting(None, {"train": PhaseSetting(0)}))
    sink.take(batch)
    assert sink.results() == {}

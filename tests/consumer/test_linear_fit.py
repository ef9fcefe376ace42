from dataclasses import replace

import numpy as np
import pytest

from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.softmax import Line, LinearFit
from dtsflow.consumer.train import Train
from dtsflow.errors import ConfigError
from dtsflow.spec import Field
from dtsflow.tensor.dtype import DType
from dtsflow.testing import check_consumer, record_batch

FIELDS = (Field("x", (1,), DType.FP64), Field("y", (1,), DType.FP64))


def setting(*fields: Field) -> Setting:
    return Setting(None, {"train": PhaseSetting(0, pixels=None, fields=fields)})


def fit() -> Line:
    return LinearFit().init(setting(*FIELDS))


def test_the_slope_is_that_of_least_squares_over_valid_rows() -> None:
    line, batches = fit(), [record_batch(6, step=step, missing=step) for step in range(3)]
    for batch in batches:
        line.step(batch)
    x, y = (
        np.concatenate([batch.fields[name][batch.valid] for batch in batches]).ravel()
        for name in ("x", "y")
    )
    expected = np.linalg.lstsq(x[:, None], y, rcond=None)[0]
    assert line.results()["slope"] == pytest.approx(expected[0])


def test_the_loss_is_the_mean_squared_error_and_zero_without_a_row() -> None:
    batch = record_batch(4, missing=0)
    batch.fields["y"][:] = 3 * batch.fields["x"]
    line = fit()
    assert line.step(batch) == 0.0
    assert line.results() == {"slope": 3.0}
    batch.fields["y"][:] += 2
    assert line.evaluate(batch) == {"squared_error": pytest.approx(16.0)}
    assert line.step(record_batch(4, missing=4)) == 0.0


def test_a_line_goes_on_from_its_state() -> None:
    whole, first, second = fit(), fit(), fit()
    for step in range(4):
        whole.step(record_batch(step=step))
    for step in range(2):
        first.step(record_batch(step=step))
    second.load(first.state())
    for step in range(2, 4):
        second.step(record_batch(step=step))
    assert second.results() == whole.results()


def test_the_slope_stands_in_the_report_beside_the_losses() -> None:
    told = check_consumer(Train(LinearFit()))["train"]
    assert isinstance(told, dict)
    assert set(told) == {"slope", "losses", "evaluations", "last"}


def test_fields_that_are_missing_or_differ_are_named() -> None:
    x, y = FIELDS
    for fields, told in (
        ((), "have images"),
        ((x,), r"have x\[1\]"),
        ((x, replace(y, shape=(2,))), r"have x\[1\], y\[2\]"),
    ):
        with pytest.raises(ConfigError, match=told):
            LinearFit().init(setting(*fields))

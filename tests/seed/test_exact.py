import math
from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats

from dtsflow.errors import PlanError
from dtsflow.seed.exact import exp, log


@given(floats(-8, 8))
def test_exp_is_right_to_fourteen_digits(x: float) -> None:
    truth = Context(prec=40).exp(Decimal(x))
    assert abs(Decimal(float(exp(x))) / truth - 1) < Decimal("1e-14")


def test_exp_works_on_arrays_and_leaves_them_alone() -> None:
    x = np.linspace(-8, 8, 1001).reshape(7, 143)
    kept = x.copy()
    made = exp(x)
    assert made.shape == x.shape
    assert np.allclose(made, [[math.exp(v) for v in row] for row in x], rtol=1e-14, atol=0)
    assert np.array_equal(x, kept)


def test_exp_gives_the_same_bits_in_an_array_of_any_length() -> None:
    x = np.linspace(-1, 1, 997)
    together = exp(x)
    assert [float(exp(value)) for value in x] == together.tolist()
    assert exp(x[::3]).tolist() == together[::3].tolist()


def test_exp_is_the_same_chain_of_adds_and_multiplies_in_plain_python() -> None:
    for x in np.linspace(-8, 8, 333).tolist():
        reduced, result = x / 16, 1 / math.factorial(15)
        for k in range(14, -1, -1):
            product = result * reduced
            result = product + 1 / math.factorial(k)
        for _ in range(4):
            result = result * result
        assert float(exp(x)) == result


def test_exp_of_nothing_is_nothing_and_of_zero_is_one() -> None:
    assert exp(np.empty(0)).shape == (0,)
    assert float(exp(0)) == 1.0


@pytest.mark.parametrize("x", [8.5, -9.0, math.inf, math.nan])
def test_exp_refuses_what_it_is_not_exact_for(x: float) -> None:
    with pytest.raises(PlanError, match=r"covers -8.0..8.0 and was given"):
        exp([0.0, x])


@given(floats(min_value=1e-300, max_value=1e300))
def test_log_is_within_one_unit_of_the_c_library(value: float) -> None:
    expected = math.log(value)
    assert abs(log(value) - expected) <= math.ulp(expected)


def test_log_is_correctly_rounded() -> None:
    assert log(2.0) == 0.6931471805599453
    assert log(1.0) == 0.0
    assert log(0.75) == -0.2876820724517809


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_log_refuses_what_has_none(value: float) -> None:
    with pytest.raises(PlanError, match=f"logarithm of {value}"):
        log(value)

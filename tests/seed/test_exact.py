import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats

from dtsflow.errors import PlanError
from dtsflow.seed.exact import exp, log, logs, sin_cos

PI = Decimal("3.14159265358979323846264338327950288419716939937510")


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


def true_sine(degrees: Decimal) -> Decimal:
    """By its series, to forty digits."""
    with localcontext(prec=50):
        x = degrees * PI / 180
        total = term = x
        k = 1
        while abs(term) > Decimal("1e-45"):
            term = -term * x * x / ((k + 1) * (k + 2))
            total, k = total + term, k + 2
        return total


@given(floats(-720, 720).filter(lambda x: x == 0 or abs(x) > 1e-300))
def test_sine_and_cosine_are_right_to_the_last_bit_or_two(degrees: float) -> None:
    sine, cosine = (Decimal(float(value)) for value in sin_cos(degrees))
    for made, truth in (
        (sine, true_sine(Decimal(degrees))),
        (cosine, true_sine(Decimal(degrees) + 90)),
    ):
        assert abs(made - truth) <= abs(truth) * Decimal("4e-16") + Decimal("1e-40")


def test_quarter_turns_are_exact() -> None:
    sine, cosine = sin_cos([-360, -270, -180, -90, -0.0, 90, 180, 270, 360])
    assert sine.tolist() == [0, 1, 0, -1, 0, 1, 0, -1, 0]
    assert cosine.tolist() == [1, 0, -1, 0, 1, 0, -1, 0, 1]
    assert not np.signbit(sine[[0, 2, 4, 6, 8]]).any()


def test_sines_are_the_same_chain_of_adds_and_multiplies_in_plain_python() -> None:
    for x in np.linspace(-45, 45, 333).tolist():
        rest = x * (math.pi / 180)
        square = rest * rest
        sine = (-1) ** 8 / math.factorial(17)
        cosine = (-1) ** 9 / math.factorial(18)
        for k in range(7, 0, -1):
            sine = sine * square + (-1) ** k / math.factorial(2 * k + 1)
        for k in range(8, 0, -1):
            cosine = cosine * square + (-1) ** k / math.factorial(2 * k)
        made = sin_cos(x)
        assert float(made[0]) == rest + rest * (square * sine)
        assert float(made[1]) == 1.0 + square * cosine


def test_sines_have_the_same_bits_in_an_array_of_any_length() -> None:
    x = np.linspace(-400, 400, 997)
    sine, cosine = sin_cos(x)
    assert [float(sin_cos(value)[0]) for value in x] == sine.tolist()
    assert sin_cos(x[::3])[1].tolist() == cosine[::3].tolist()
    assert sin_cos(np.empty(0))[0].shape == (0,)


@pytest.mark.parametrize("degrees", [1.1e6, math.inf, math.nan])
def test_sines_of_what_is_no_angle_are_refused(degrees: float) -> None:
    with pytest.raises(PlanError, match="exact sines cover"):
        sin_cos([0.0, degrees])


@given(floats(min_value=1e-300, max_value=1e300))
def test_logarithms_of_arrays_are_right_to_fifteen_digits(value: float) -> None:
    truth = Context(prec=40).ln(Decimal(value))
    assert abs(Decimal(float(logs(value))) - truth) <= abs(truth) * Decimal("1e-15")


def test_logarithms_are_exact_at_one_and_near_it_as_right_as_elsewhere() -> None:
    assert float(logs(1.0)) == 0.0
    for value in (1 - 2.0**-24, 1 + 2.0**-24, 0.5**0.5, 2**0.5):
        assert float(logs(value)) == pytest.approx(math.log(value), rel=1e-15)


def test_logarithms_have_the_same_bits_in_an_array_of_any_length() -> None:
    x = np.linspace(1e-6, 3, 997)
    together = logs(x)
    assert [float(logs(value)) for value in x] == together.tolist()
    assert logs(x[::3]).tolist() == together[::3].tolist()
    assert logs(np.empty(0)).shape == (0,)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_logarithms_of_what_has_none_are_refused(value: float) -> None:
    with pytest.raises(PlanError, match="only positive, finite numbers have one"):
        logs([1.0, value])

import zlib

import numpy as np

from dtsflow.seed.exact import UNIT, normals, quantiles


def test_the_table_is_the_same_on_every_machine() -> None:
    assert zlib.crc32(quantiles().astype("<i2").tobytes()) == 0x24DCCC6F


def test_all_bits_together_are_a_standard_normal() -> None:
    every = normals(np.arange(1 << 16, dtype=np.uint16)).astype(float)
    assert every.mean() == 0
    assert abs(every.std() - 1) < 2e-5
    assert abs((every**4).mean() - 3) < 2e-3
    assert 4.32 < every.max() == -every.min() < 4.33
    assert (every / UNIT == np.rint(every / UNIT)).all()
    # Published quantiles.
    for value, below in ((1.0, 0.8413447), (1.959964, 0.975), (3.0, 0.9986501)):
        assert abs((every < value).mean() - below) < 1e-4


def test_the_highest_bit_is_the_sign() -> None:
    low = normals(np.array([0, 5, 32767], np.uint16))
    high = normals(np.array([32768, 32773, 65535], np.uint16))
    assert np.array_equal(low, -high)
    assert (low >= 0).all()
    assert (np.diff(low) > 0).all()

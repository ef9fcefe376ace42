import numpy as np

from dtsflow.tensor.dtype import from_bfloat16, to_bfloat16


def test_every_number_of_16_bits_comes_back_as_it_was() -> None:
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    numbers = from_bfloat16(bits)
    known = ~np.isnan(numbers)
    assert np.array_equal(to_bfloat16(numbers[known]), bits[known])
    assert from_bfloat16(np.array([0x3F80, 0xC000], np.uint16)).tolist() == [1.0, -2.0]

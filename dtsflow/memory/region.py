"""The named runs of memory that a plan consists of, in the order they lie in it."""

from enum import Enum
from typing import Final

from dtsflow.configurable import nearest
from dtsflow.errors import MemoryPlanError
from dtsflow.tensor.dtype import DType

HALF: Final = frozenset({DType.FP16, DType.BF16})  # BF16 goes wherever FP16 does
_FP32: Final = frozenset({DType.FP32})
_INT32: Final = frozenset({DType.INT32})
_INT8: Final = frozenset({DType.INT8})
_BYTE: Final = frozenset({DType.INT8, DType.UINT8})  # UINT8: pixels not yet normalised
_ANY: Final = frozenset(DType)


class Region(Enum):
    """A region: its place in memory order, and the element types it may hold.

    The first letter is the family: B batch statistics, W weights, E their moving
    averages, A half-precision working copies, G gradients, M and V moments, N norms,
    I input, F features, S scalars and masks, T temporaries, R results. The order is
    Tech-Renaissance's and must not change: neighbours are updated, reduced or copied
    as one run, and biases come before the weights that decay.
    """

    def __init__(self, index: int, dtypes: frozenset[DType]) -> None:
        self.index = index
        self.dtypes = dtypes

    @classmethod
    def named(cls, name: str) -> "Region":
        """The region with that name.

        Raises:
            MemoryPlanError: There is none; the message has the nearest name.
        """
        if name not in cls.__members__:
            raise MemoryPlanError(f"there is no region {name!r}.{nearest(name, cls.__members__)}")
        return cls[name]

    B_PREV_MEAN = 0, _FP32
    B_PREV_VAR = 1, _FP32
    B_NEXT_MEAN = 2, _FP32
    B_NEXT_VAR = 3, _FP32
    W_EQ_BIAS = 4, _FP32
    W_EQ_SCALE = 5, _FP32
    W_BN_BIAS = 6, _FP32
    W_BN_WEIGHT = 7, _FP32
    W_FC_BIAS = 8, _FP32
    W_FC_WEIGHT = 9, _FP32
    W_FIRST_CONV = 10, _FP32
    W_DEEP_CONV = 11, _FP32
    E_BN_BIAS = 12, _FP32
    E_BN_WEIGHT = 13, _FP32
    E_FC_BIAS = 14, _FP32
    E_FC_WEIGHT = 15, _FP32
    E_FIRST_CONV = 16, _FP32
    E_DEEP_CONV = 17, _FP32
    E_FC_WEIGHT_FP16 = 18, HALF
    E_FIRST_CONV_FP16 = 19, HALF
    E_DEEP_CONV_FP16 = 20, HALF
    A_FC_WEIGHT = 21, HALF
    A_FIRST_CONV = 22, HALF
    A_DEEP_CONV = 23, HALF
    G_BN_BIAS = 24, _FP32
    G_BN_WEIGHT = 25, _FP32
    G_FC_BIAS = 26, _FP32
    G_FC_WEIGHT = 27, _FP32
    G_FIRST_CONV = 28, _FP32
    G_DEEP_CONV = 29, _FP32
    R_RESULT = 30, _FP32
    G_FC_WEIGHT_FP16 = 31, HALF
    G_FIRST_CONV_FP16 = 32, HALF
    G_DEEP_CONV_FP16 = 33, HALF
    M_BN_BIAS = 34, _FP32
    M_BN_WEIGHT = 35, _FP32
    M_FC_BIAS = 36, _FP32
    M_FC_WEIGHT = 37, _FP32
    M_FIRST_CONV = 38, _FP32
    M_DEEP_CONV = 39, _FP32
    V_BN_BIAS = 40, _FP32
    V_BN_WEIGHT = 41, _FP32
    V_FC_BIAS = 42, _FP32
    V_FC_WEIGHT = 43, _FP32
    V_FIRST_CONV = 44, _FP32
    V_DEEP_CONV = 45, _FP32
    N_FC_WEIGHT = 46, _FP32
    N_FIRST_CONV = 47, _FP32
    N_DEEP_CONV = 48, _FP32
    I_A_LABEL = 49, _INT32
    I_A_DATA = 50, _ANY
    I_B_LABEL = 51, _INT32
    I_B_DATA = 52, _ANY
    F_FEATURE_FP32 = 53, _FP32
    F_GRAD_SLOT_FP32 = 54, _FP32
    F_FEATURE_FP16 = 55, HALF
    F_GRAD_SLOT_FP16 = 56, HALF
    S_SCALAR_FP32 = 57, _FP32
    S_SCALAR_FP16 = 58, HALF
    S_SCALAR_INT32 = 59, _INT32
    S_SCALAR_INT8 = 60, _INT8
    S_MASK = 61, _INT8
    T_TEMP_FP32 = 62, _FP32
    T_TEMP_FP16 = 63, HALF
    T_TEMP_INT32 = 64, _INT32
    T_TEMP_INT8 = 65, _BYTE
    R_PREDICTED_LABEL = 66, _INT32
    R_RESULT_ACCUMULATED = 67, _FP32

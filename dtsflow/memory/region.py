"""The named regions that a plan consists of, and the bytes of a tensor's slot in them.

Regions lie in memory in the order of `Region`. A slot is sized so that an FP32 tensor
takes exactly twice its unpadded FP16 twin. So a weight has the same element number in a
run of FP32 regions and in its FP16 copy, and a single flat kernel casts the whole run,
gaps included. `Variant` is another form that the tensor of a slot takes.

`PlanConfig` says what a training step keeps, and so which regions its plan may use.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from dtsflow.config.configurable import configurable, nearest
from dtsflow.errors import MemoryPlanError
from dtsflow.memory.align import align256
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

HALF: Final = frozenset({DType.FP16, DType.BF16})  # BF16 goes wherever FP16 does
_FP32: Final = frozenset({DType.FP32})
_INT32: Final = frozenset({DType.INT32})
_INT8: Final = frozenset({DType.INT8})
_BYTE: Final = frozenset({DType.INT8, DType.UINT8})  # UINT8: pixels not yet normalised
_ANY: Final = frozenset(DType)


class Region(Enum):
    """A region: its position in memory order, and the element types it may hold.

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
        """Return the region with that name.

        Raises:
            MemoryPlanError: No region has it; the message has the nearest name.
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


_INPUTS: Final = frozenset({Region.I_A_DATA, Region.I_B_DATA})
_FEATURES: Final = frozenset({Region.F_FEATURE_FP16, Region.F_GRAD_SLOT_FP16})
_SPARE: Final = 16  # bytes; upstream reserves them, and offsets must equal its offsets


def channel_alignment(dtype: DType, region: Region) -> int:
    """Return the number that a tensor's channels are padded to a multiple of."""
    if dtype in HALF and region in _INPUTS:
        return 4
    if dtype in HALF and region in _FEATURES:
        return 8
    if dtype is DType.INT8 and region is Region.S_MASK:
        return 8
    return 1


def padded_channels(channels: int, dtype: DType, region: Region) -> int:
    """Return the channels as stored, padding included."""
    alignment = channel_alignment(dtype, region)
    return -(-channels // alignment) * alignment


def slot_bytes(shape: Shape, dtype: DType, region: Region) -> int:
    """Return the bytes to reserve for a tensor: enough, and a multiple of 256."""
    elements = shape.n * shape.h * shape.w * padded_channels(shape.c, dtype, region)
    if dtype.itemsize == 1:
        return align256(elements + _SPARE)
    # Wider types count in 2-byte units first, which is what keeps the ratio exact.
    return dtype.itemsize // 2 * align256(2 * elements + _SPARE)


@dataclass(frozen=True, slots=True)
class Variant:
    """A shape and type that a slot holds at some other time of a run.

    A phase with its own resolution, or a last batch that is shorter: the slot is as big
    as its biggest form, so that no address changes with the form in use.
    """

    shape: Shape
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype.value}{self.shape}"


Optimizer = Literal["sgd", "momentum", "nesterov", "lars", "adam", "adamw"]

_ADAM: Final[tuple[Optimizer, ...]] = ("adam", "adamw")
_LARS: Final[tuple[Optimizer, ...]] = ("lars",)
_MOMENTUM: Final[tuple[Optimizer, ...]] = ("momentum", "nesterov", *_LARS, *_ADAM)
_OPTIMIZERS: Final = {"M_": _MOMENTUM, "V_": _ADAM, "N_": _LARS}
_SINGLE_FEATURES: Final = (Region.F_FEATURE_FP32, Region.F_GRAD_SLOT_FP32)


@configurable
class PlanConfig:
    """The way a model is trained, as far as memory is concerned.

    Attributes:
        amp: Half precision: working weights, gradients and features of 16 bits.
        optimizer: Which moments and norms each weight has.
        ema: Keep a moving average of the weights.
        folded_bn: Keep the scales and biases of folded batch normalisation.
    """

    amp: bool = False
    optimizer: Optimizer = "momentum"
    ema: bool = False
    folded_bn: bool = True

    @property
    def has_momentum(self) -> bool:
        """Tell whether every weight has a first moment."""
        return self.optimizer in _MOMENTUM

    @property
    def is_adam(self) -> bool:
        """Tell whether every weight has a second moment."""
        return self.optimizer in _ADAM

    @property
    def is_lars(self) -> bool:
        """Tell whether the weights that decay have norms."""
        return self.optimizer in _LARS

    def allows(self, region: Region) -> bool:
        """Tell whether a plan for this configuration may use `region`."""
        return not any(self._unmet(region))

    def check(self, region: Region) -> None:
        """Refuse a region that this configuration does not use.

        Raises:
            MemoryPlanError: It names every condition that is not met.
        """
        unmet = list(self._unmet(region))
        if unmet:
            raise MemoryPlanError(
                f"{region.name} is not used with amp={self.amp}, "
                f"optimizer={self.optimizer}, ema={self.ema}, folded_bn={self.folded_bn}: it "
                f"needs {' and '.join(unmet)}. Change that, or leave the tensor out."
            )

    def _unmet(self, region: Region) -> Iterator[str]:
        family = region.name[:2]
        if region.name.startswith("W_EQ_") and not self.folded_bn:
            yield "folded_bn=True"
        if family == "E_" and not self.ema:
            yield "ema=True"
        # Temporaries of 16 bits need no AMP: others than a model's layers use them too.
        if region.dtypes == HALF and family != "T_" and not self.amp:
            yield "amp=True"
        if region in _SINGLE_FEATURES and self.amp:
            yield "amp=False"
        if self.optimizer not in _OPTIMIZERS.get(family, (self.optimizer,)):
            yield f"optimizer={'|'.join(_OPTIMIZERS[family])}"

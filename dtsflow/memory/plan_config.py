"""What a training step keeps, and so which regions its plan may use."""

from collections.abc import Iterator
from typing import Final, Literal

from dtsflow.configurable import configurable
from dtsflow.errors import MemoryPlanError
from dtsflow.memory.region import HALF, Region

Optimizer = Literal["sgd", "momentum", "nesterov", "lars", "adam", "adamw"]

_ADAM: Final[tuple[Optimizer, ...]] = ("adam", "adamw")
_LARS: Final[tuple[Optimizer, ...]] = ("lars",)
_MOMENTUM: Final[tuple[Optimizer, ...]] = ("momentum", "nesterov", *_LARS, *_ADAM)
_OPTIMIZERS: Final = {"M_": _MOMENTUM, "V_": _ADAM, "N_": _LARS}
_SINGLE_FEATURES: Final = (Region.F_FEATURE_FP32, Region.F_GRAD_SLOT_FP32)


@configurable
class PlanConfig:
    """How a model is trained, as far as memory is concerned.

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
        """Whether every weight has a first moment."""
        return self.optimizer in _MOMENTUM

    @property
    def is_adam(self) -> bool:
        """Whether every weight has a second moment."""
        return self.optimizer in _ADAM

    @property
    def is_lars(self) -> bool:
        """Whether the weights that decay have norms."""
        return self.optimizer in _LARS

    def allows(self, region: Region) -> bool:
        """Whether a plan for this configuration may use `region`."""
        return not any(self._unmet(region))

    def check(self, region: Region) -> None:
        """Refuse a region that this configuration has no use for.

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

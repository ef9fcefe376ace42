"""The memory plan: where every tensor of a run lies, before any byte exists.

`NAMED_RANGES` names, by their use, the runs of regions that one operation handles
whole. `InputBuffer` describes what an input zone holds at one time of a run.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, overload

from dtsflow.config.configurable import nearest
from dtsflow.errors import MemoryPlanError
from dtsflow.memory.drawing import draw, draw_svg
from dtsflow.memory.region import PlanConfig, Region, Variant, slot_bytes
from dtsflow.memory.validation import differences, validate
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import DTensor

_FAMILIES: Final = {
    "weights": "W",
    "gradients": "G",
    "first_moments": "M",
    "second_moments": "V",
    "ema": "E",
}


def _of_layers(family: str) -> dict[str, tuple[Region, Region]]:
    """Return a family and its two halves: what does not decay lies before the rest."""
    letter = _FAMILIES[family]
    first, last = Region[f"{letter}_BN_BIAS"], Region[f"{letter}_DEEP_CONV"]
    return {
        family: (first, last),
        f"{family}_undecayed": (first, Region[f"{letter}_FC_BIAS"]),
        f"{family}_decayed": (Region[f"{letter}_FC_WEIGHT"], last),
    }


# Source of the runs: Tech-Renaissance's compiler, from whose kernels the order comes.
NAMED_RANGES: Final[dict[str, tuple[Region, Region]]] = {
    **{name: span for family in _FAMILIES for name, span in _of_layers(family).items()},
    "weights_half": (Region.A_FC_WEIGHT, Region.A_DEEP_CONV),
    "ema_half": (Region.E_FC_WEIGHT_FP16, Region.E_DEEP_CONV_FP16),
    "gradients_half": (Region.G_FC_WEIGHT_FP16, Region.G_DEEP_CONV_FP16),
    "gradients_to_clear": (Region.G_BN_BIAS, Region.G_DEEP_CONV_FP16),
    "reduce_bucket_1": (Region.G_DEEP_CONV, Region.R_RESULT),
    "reduce_bucket_2": (Region.G_BN_BIAS, Region.G_FIRST_CONV),
    "norms": (Region.N_FC_WEIGHT, Region.N_DEEP_CONV),
    "bn_statistics": (Region.B_NEXT_MEAN, Region.B_NEXT_VAR),
    "bn_statistics_previous": (Region.B_PREV_MEAN, Region.B_PREV_VAR),
    "input_a": (Region.I_A_LABEL, Region.I_A_DATA),
    "input_b": (Region.I_B_LABEL, Region.I_B_DATA),
    "results": (Region.R_RESULT, Region.R_RESULT),
    "results_accumulated": (Region.R_RESULT_ACCUMULATED, Region.R_RESULT_ACCUMULATED),
}
"""First and last region, inclusive. What belongs together has equal element counts:
`weights`, `gradients`, the moments and `ema`, their parts alike, and each `_decayed`
run of FP32 with its `_half`. The buckets are the pieces in which gradients are summed
over ranks; the first, of the deep convolutions, carries the step's results along."""


def named_range(name: str) -> tuple[Region, Region]:
    """Return the first and last region of a run.

    Raises:
        MemoryPlanError: No run has that name.
    """
    if name not in NAMED_RANGES:
        raise MemoryPlanError(
            f"there is no run of regions named {name!r}.{nearest(name, NAMED_RANGES)}"
        )
    return NAMED_RANGES[name]


@dataclass(frozen=True, slots=True)
class InputBuffer:
    """One form of a batch: `batch` images of the sides in `image`, whose n is replaced.

    A run has one for each phase or resolution that differs. `fields` are what a batch
    has beside images and labels, by name; `name` is the name of its images; in a batch
    of records they are a field.
    """

    batch: int
    image: Shape
    dtype: DType
    fields: Mapping[str, Variant] = field(default_factory=dict)
    name: str = "images"

    @property
    def labels(self) -> Variant:
        """Return the labels, one INT32 for each image."""
        return Variant(Shape.from_logical((self.batch,)), DType.INT32)

    @property
    def images(self) -> Variant:
        """Return the pixels of the whole batch."""
        return Variant(replace(self.image, n=self.batch), self.dtype)


Span = tuple[int, int]

_ZONES: Final = (
    (Region.I_A_LABEL, Region.I_A_DATA),
    (Region.I_B_LABEL, Region.I_B_DATA),
)
_PIXEL: Final = Shape(1, 1, 1, 1)


class MemoryPlan:
    """A collection of tensors that are placed once and for all.

    Before `finalize` tensors can be allocated and none has an offset; afterwards every
    tensor has one and none can be allocated. All sizes and offsets are in bytes. With a
    `config` the plan holds what that training step uses: no other region, and every
    helper of a weight.
    """

    def __init__(self, config: PlanConfig | None = None) -> None:
        self.config = config
        self._tensors: list[DTensor] = []
        self._spans: dict[Region, Span] = {}  # filled by finalize, empty before

    def allocate(
        self,
        region: Region,
        shape: Shape,
        dtype: DType,
        name: str = "",
        variants: Sequence[Variant] = (),
    ) -> DTensor:
        """Reserve a slot; the tensor returned has the next id and no offset yet.

        `variants` are further forms that the slot must have room for.

        Raises:
            MemoryPlanError: The plan is final, or the region is not used with its
                configuration or does not hold the type of every form.
        """
        self._expect_open(f"allocate a tensor in {region.name}")
        if self.config is not None:
            self.config.check(region)
        forms = Variant(shape, dtype), *variants
        for form in forms:
            _check_dtype(region, form)
        size = max(slot_bytes(form.shape, form.dtype, region) for form in forms)
        tensor = DTensor(len(self._tensors), name, shape, dtype, region, size, variants=forms[1:])
        self._tensors.append(tensor)
        return tensor

    @overload
    def input_buffers(self, *, inputs: Sequence[InputBuffer]) -> "MemoryPlan": ...

    @overload
    def input_buffers(self, *, batch: int, image: Shape, dtype: DType) -> "MemoryPlan": ...

    def input_buffers(
        self,
        *,
        inputs: Sequence[InputBuffer] = (),
        batch: int = 0,
        image: Shape = _PIXEL,
        dtype: DType = DType.UINT8,
    ) -> "MemoryPlan":
        """Reserve labels, images and further fields of a batch in both zones.

        `inputs` has one entry for each form of a batch, the main one first; or `batch`,
        `image` (n is replaced) and `dtype` describe the only one. The slot of a further
        field has room for every form that has it.

        Raises:
            MemoryPlanError: The plan is final, or a batch is not positive.
        """
        first, *others = forms = inputs or (InputBuffer(batch, image, dtype),)
        names = dict.fromkeys(name for form in forms for name in form.fields)
        for label, data in _ZONES:
            labels, images = first.labels, first.images
            also_labels = [form.labels for form in others]
            also_images = [form.images for form in others]
            self.allocate(label, labels.shape, labels.dtype, "labels", also_labels)
            self.allocate(data, images.shape, images.dtype, first.name, also_images)
            for name in names:
                field, *also = (form.fields[name] for form in forms if name in form.fields)
                self.allocate(data, field.shape, field.dtype, name, also)
        return self

    def finalize(self) -> "MemoryPlan":
        """Give every tensor its offset, region after region, and close the plan.

        Raises:
            MemoryPlanError: The plan is already final, or the tensors do not belong
                together; then it stays open.
        """
        self._expect_open("finalize it again")
        placed: list[DTensor] = []
        spans: dict[Region, Span] = {}
        cursor = 0
        for region in Region:
            start = cursor
            for tensor in self._tensors:
                if tensor.region is region:
                    placed.append(replace(tensor, offset=cursor))
                    cursor += tensor.slot_bytes
            spans[region] = (start, cursor)
        validate(placed, self.config)
        self._tensors, self._spans = placed, spans
        return self

    @property
    def total_bytes(self) -> int:
        """Return the size of the arena that holds the whole plan."""
        return sum(tensor.slot_bytes for tensor in self.tensors)

    @property
    def tensors(self) -> tuple[DTensor, ...]:
        """Return every tensor, in memory order."""
        self._expect_final()
        return tuple(self._tensors)

    @property
    def zone_bytes(self) -> int:
        """Return the size of one input zone, labels and data: what one copy moves.

        Raises:
            MemoryPlanError: The two zones differ.
        """
        zone_a, zone_b = (
            self.region_bytes(label) + self.region_bytes(data) for label, data in _ZONES
        )
        if zone_a != zone_b:
            raise MemoryPlanError(
                f"input zone A has {zone_a} bytes and zone B {zone_b}. A batch may land in "
                "either, so allocate the same tensors in both."
            )
        return zone_a

    def tensor(self, id: int) -> DTensor:  # noqa: A002  # the field's own name
        """Look up the tensor that `allocate` gave this id, with its offset.

        Raises:
            MemoryPlanError: The plan is not final, or has no such tensor.
        """
        for tensor in self.tensors:
            if tensor.id == id:
                return tensor
        raise MemoryPlanError(
            f"tensor {id} was asked for, and this plan has {len(self._tensors)}, numbered "
            "from 0. Use an id that this plan's allocate() returned."
        )

    def region_tensors(self, region: Region) -> tuple[DTensor, ...]:
        """Return the tensors of a region, in memory order, with their offsets."""
        return tuple(tensor for tensor in self.tensors if tensor.region is region)

    def region_offset(self, region: Region) -> int:
        """Return where a region begins; if empty, where the next tensor does."""
        return self.range(region, region)[0]

    def region_bytes(self, region: Region) -> int:
        """Return the size of a region, 0 if nothing is in it."""
        start, stop = self.range(region, region)
        return stop - start

    def range(self, first: Region, last: Region) -> Span:
        """Return the span of the regions from `first` to `last` inclusive.

        Raises:
            MemoryPlanError: The plan is not final, or `first` comes after `last`.
        """
        self._expect_final()
        if first.index > last.index:
            raise MemoryPlanError(
                f"the run from {first.name} to {last.name} was asked for, and they are "
                f"regions {first.index} and {last.index} in memory order. Swap them."
            )
        return self._spans[first][0], self._spans[last][1]

    def named_range(self, name: str) -> Span:
        """Return the span of the regions that `NAMED_RANGES` calls `name`.

        Raises:
            MemoryPlanError: The plan is not final, or no run has that name.
        """
        return self.range(*named_range(name))

    def digest(self) -> str:
        """Return the SHA-256 (hex) of each slot's offset and forms, not its name."""
        hashed = hashlib.sha256()
        for t in self.tensors:
            slot = f"{t.id} {t.region.name} {t.shape} {t.dtype.value} {t.slot_bytes} {t.offset}"
            also = "".join(f" {form.shape} {form.dtype.value}" for form in t.variants)
            hashed.update(f"{slot}{also}\n".encode())
        return hashed.hexdigest()

    def table(self) -> str:
        """Draw the plan: one line for each tensor, and the total."""
        return draw(self.tensors, self.total_bytes)

    def diff(self, other: "MemoryPlan") -> str:
        """Describe what is different in `other`, a later plan; see `differences`."""
        return differences(self.tensors, other.tensors)

    def svg(self) -> str:
        """Draw the plan to scale, as the text of an SVG file."""
        return draw_svg(self.tensors)

    def _expect_open(self, action: str) -> None:
        if self._spans:
            raise MemoryPlanError(
                f"cannot {action}: the plan is final, {len(self._tensors)} tensors in "
                f"{self.total_bytes} bytes, and its addresses are in use. Do it before "
                "finalize(), or make a new plan."
            )

    def _expect_final(self) -> None:
        if not self._spans:
            raise MemoryPlanError(
                f"the plan is not final, and its {len(self._tensors)} tensors have no "
                "addresses yet. Call finalize() first."
            )


def _check_dtype(region: Region, form: Variant) -> None:
    if form.dtype not in region.dtypes:
        valid = ", ".join(sorted(allowed.value for allowed in region.dtypes))
        raise MemoryPlanError(
            f"{region.name} was asked to hold {form}, and it holds {valid}. Use that type, "
            f"or the region made for {form.dtype.value}."
        )

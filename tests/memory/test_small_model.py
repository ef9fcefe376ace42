"""The offsets of a small model, against a computation by hand.

The model: convolution of 4 filters 3x3x3 (108 weights), batch normalisation of 4
channels, fully connected 16 -> 10 (160 weights, 10 biases). A batch is 2 images of
8x8x3.

Slots of e FP32 elements take 2 * align256(2e + 16) bytes:
    4 or 10 elements: 2 * align256(24 or 36) = 2 * 256 = 512
    108: 2 * align256(232) = 2 * 256 = 512
    160: 2 * align256(336) = 2 * 512 = 1024
    images, 2 * 8 * 8 * 3 = 384: 2 * align256(784) = 2 * 1024 = 2048
and of FP16 align256(2e + 16): half of these; but images are padded to 4 channels,
2 * 8 * 8 * 4 = 512: align256(1040) = 1280.
"""

from typing import Final

from dtsflow.memory.plan import InputBuffer, MemoryPlan
from dtsflow.memory.region import PlanConfig, Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

LAYERS: Final = {
    "FIRST_CONV": (4, 3, 3, 3),
    "BN_BIAS": (4,),
    "BN_WEIGHT": (4,),
    "FC_WEIGHT": (10, 16),
    "FC_BIAS": (10,),
}
HALVES: Final = ("FIRST_CONV", "FC_WEIGHT")


def model(config: PlanConfig, families: str, image: DType) -> MemoryPlan:
    plan = MemoryPlan(config)
    plan.input_buffers(inputs=[InputBuffer(2, Shape(1, 8, 8, 3), image)])
    for name in ("B_PREV_MEAN", "B_PREV_VAR", "B_NEXT_MEAN", "B_NEXT_VAR"):
        plan.allocate(Region[name], Shape.from_logical((4,)), DType.FP32)
    for layer, sides in LAYERS.items():
        for family in families:
            plan.allocate(Region[f"{family}_{layer}"], Shape.from_logical(sides), DType.FP32)
        if config.amp and layer in HALVES:
            for name in (f"A_{layer}", f"G_{layer}_FP16"):
                plan.allocate(Region[name], Shape.from_logical(sides), DType.FP16)
    plan.allocate(Region.R_RESULT, Shape(1, 1, 1, 1), DType.FP32, "loss")
    return plan.finalize()


def offsets(plan: MemoryPlan) -> dict[str, int]:
    return {tensor.region.name: tensor.offset for tensor in plan.tensors}


def test_single_precision_with_momentum_lies_where_it_was_computed_to() -> None:
    plan = model(PlanConfig(optimizer="momentum"), "WGM", DType.FP32)
    assert offsets(plan) == {
        "B_PREV_MEAN": 0,
        "B_PREV_VAR": 512,
        "B_NEXT_MEAN": 1024,
        "B_NEXT_VAR": 1536,
        "W_BN_BIAS": 2048,
        "W_BN_WEIGHT": 2560,
        "W_FC_BIAS": 3072,
        "W_FC_WEIGHT": 3584,  # 1024 bytes; all other weights 512
        "W_FIRST_CONV": 4608,
        "G_BN_BIAS": 5120,
        "G_BN_WEIGHT": 5632,
        "G_FC_BIAS": 6144,
        "G_FC_WEIGHT": 6656,
        "G_FIRST_CONV": 7680,
        "R_RESULT": 8192,
        "M_BN_BIAS": 8704,
        "M_BN_WEIGHT": 9216,
        "M_FC_BIAS": 9728,
        "M_FC_WEIGHT": 10240,
        "M_FIRST_CONV": 11264,
        "I_A_LABEL": 11776,
        "I_A_DATA": 12288,  # 2048 bytes
        "I_B_LABEL": 14336,
        "I_B_DATA": 14848,
    }
    assert plan.total_bytes == 16896


def test_mixed_precision_lies_where_it_was_computed_to() -> None:
    plan = model(PlanConfig(optimizer="sgd", amp=True), "WG", DType.FP16)
    assert offsets(plan) == {
        "B_PREV_MEAN": 0,
        "B_PREV_VAR": 512,
        "B_NEXT_MEAN": 1024,
        "B_NEXT_VAR": 1536,
        "W_BN_BIAS": 2048,
        "W_BN_WEIGHT": 2560,
        "W_FC_BIAS": 3072,
        "W_FC_WEIGHT": 3584,
        "W_FIRST_CONV": 4608,
        "A_FC_WEIGHT": 5120,  # 512 bytes
        "A_FIRST_CONV": 5632,  # 256 bytes
        "G_BN_BIAS": 5888,
        "G_BN_WEIGHT": 6400,
        "G_FC_BIAS": 6912,
        "G_FC_WEIGHT": 7424,
        "G_FIRST_CONV": 8448,
        "R_RESULT": 8960,
        "G_FC_WEIGHT_FP16": 9472,
        "G_FIRST_CONV_FP16": 9984,
        "I_A_LABEL": 10240,
        "I_A_DATA": 10752,  # 1280 bytes
        "I_B_LABEL": 12032,
        "I_B_DATA": 12544,
    }
    assert plan.total_bytes == 13824


def test_the_named_runs_of_the_model_are_what_its_offsets_say() -> None:
    plan = model(PlanConfig(optimizer="momentum"), "WGM", DType.FP32)
    assert {
        name: plan.named_range(name)
        for name in ("weights", "weights_undecayed", "weights_decayed", "gradients")
    } == {
        "weights": (2048, 5120),
        "weights_undecayed": (2048, 3584),
        "weights_decayed": (3584, 5120),
        "gradients": (5120, 8192),
    }
    assert plan.named_range("bn_statistics") == (1024, 2048)
    assert plan.named_range("bn_statistics_previous") == (0, 1024)
    assert plan.named_range("first_moments") == (8704, 11776)
    assert plan.named_range("second_moments") == (11776, 11776)
    assert plan.named_range("reduce_bucket_1") == (8192, 8704)  # no deep convolution here
    assert plan.named_range("reduce_bucket_2") == (5120, 8192)
    assert plan.named_range("input_a") == (11776, 14336)
    assert plan.named_range("input_b") == (14336, 16896)

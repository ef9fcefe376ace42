import pickle

import pytest

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.region import Region
from dtsflow.tensor.dtype import DType


def test_there_are_68_regions_numbered_in_memory_order() -> None:
    assert [region.index for region in Region] == list(range(68))


@pytest.mark.parametrize(
    ("index", "name"),
    [
        (0, "B_PREV_MEAN"),
        (6, "W_BN_BIAS"),
        (18, "E_FC_WEIGHT_FP16"),
        (30, "R_RESULT"),
        (33, "G_DEEP_CONV_FP16"),
        (34, "M_BN_BIAS"),
        (40, "V_BN_BIAS"),
        (46, "N_FC_WEIGHT"),
        (49, "I_A_LABEL"),
        (50, "I_A_DATA"),
        (51, "I_B_LABEL"),
        (52, "I_B_DATA"),
        (53, "F_FEATURE_FP32"),
        (61, "S_MASK"),
        (65, "T_TEMP_INT8"),
        (67, "R_RESULT_ACCUMULATED"),
    ],
)
def test_regions_have_the_numbers_that_device_code_expects(index: int, name: str) -> None:
    assert Region[name].index == index


def test_bf16_is_allowed_wherever_fp16_is_and_nowhere_else() -> None:
    for region in Region:
        assert (DType.BF16 in region.dtypes) == (DType.FP16 in region.dtypes)


def test_inputs_take_every_type_and_labels_only_int32() -> None:
    assert Region.I_A_DATA.dtypes == Region.I_B_DATA.dtypes == frozenset(DType)
    for label in (Region.I_A_LABEL, Region.I_B_LABEL, Region.R_PREDICTED_LABEL):
        assert label.dtypes == {DType.INT32}


def test_a_name_that_ends_in_a_type_holds_that_type() -> None:
    for region in Region:
        last = region.name.rpartition("_")[2]
        if last in DType.__members__:
            assert DType[last] in region.dtypes


def test_byte_temporaries_also_take_pixels() -> None:
    assert Region.T_TEMP_INT8.dtypes == {DType.INT8, DType.UINT8}
    assert Region.S_MASK.dtypes == {DType.INT8}


def test_everything_else_is_single_precision_except_the_working_weights() -> None:
    assert Region.A_FC_WEIGHT.dtypes == {DType.FP16, DType.BF16}
    for name in ("B_PREV_MEAN", "W_DEEP_CONV", "G_FC_BIAS", "M_BN_BIAS", "N_FC_WEIGHT"):
        assert Region[name].dtypes == {DType.FP32}


@pytest.mark.parametrize("region", Region)
def test_a_region_survives_pickling(region: Region) -> None:
    assert pickle.loads(pickle.dumps(region)) is region


def test_a_region_is_found_by_its_name() -> None:
    assert Region.named("T_TEMP_FP32") is Region.T_TEMP_FP32
    with pytest.raises(MemoryPlanError, match=r"no region 'W_FC'\. Did you mean 'W_FC_\w+'\?"):
        Region.named("W_FC")

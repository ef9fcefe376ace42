from dtsflow.spec import FieldSpec, ImageSpec, Place, RecordSpec
from dtsflow.tensor.dtype import DType


def test_a_size_that_differs_is_a_question_mark() -> None:
    assert str(ImageSpec(None, None, 3)) == "UINT8[?x?x3]"
    assert str(ImageSpec(224, 200, 3, DType.FP16)) == "FP16[224x200x3]"
    assert str(FieldSpec("bytes", (None,), DType.UINT8, Place.DISK)) == "bytes UINT8[?]"


def test_a_scalar_has_no_brackets() -> None:
    assert str(FieldSpec("label", (), DType.INT32, Place.HOST)) == "label INT32"


def test_an_image_becomes_a_field_with_its_sides_and_type() -> None:
    field = ImageSpec(5, None, 4, DType.BF16).field("image", Place.ZONE)
    assert field == FieldSpec("image", (5, None, 4), DType.BF16, Place.ZONE)


def test_a_record_names_each_place_once_in_order() -> None:
    label = FieldSpec("label", (), DType.INT32, Place.HOST)
    pixels = ImageSpec(2, 3, 1).field("image", Place.DEVICE)
    assert str(RecordSpec((label, label))) == "label INT32, label INT32 (host)"
    assert str(RecordSpec((pixels, label))) == "image UINT8[2x3x1], label INT32 (device, host)"


def test_equal_specs_are_one_key() -> None:
    assert len({ImageSpec(1, 2, 3), ImageSpec(1, 2, 3), ImageSpec(1, 2, 3, DType.FP16)}) == 2

from dtsflow.memory.plan import InputBuffer, MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape


def plan_of(*held: tuple[Region, int, str]) -> MemoryPlan:
    plan = MemoryPlan()
    for region, elements, name in held:
        plan.allocate(region, Shape.from_logical((elements,)), DType.FP32, name)
    return plan.finalize()


BASE = (Region.S_SCALAR_FP32, 1, "rate"), (Region.T_TEMP_FP32, 120, "scratch")


def test_equal_plans_differ_in_nothing() -> None:
    assert plan_of(*BASE).diff(plan_of(*BASE)) == "total 1,024 -> 1,024 bytes (+0)"


def test_what_is_new_what_is_gone_and_what_moved_is_told_by_name() -> None:
    after = plan_of((Region.S_SCALAR_FP32, 1, "decay"), (Region.B_PREV_MEAN, 1, ""), BASE[1])
    assert plan_of(*BASE).diff(after).splitlines() == [
        "- S_SCALAR_FP32 'rate': FP32[1,1,1,1], 512 bytes at 0",
        "+ B_PREV_MEAN: FP32[1,1,1,1], 512 bytes at 0",
        "+ S_SCALAR_FP32 'decay': FP32[1,1,1,1], 512 bytes at 512",
        "~ T_TEMP_FP32 'scratch': offset 512 -> 1,024",
        "total 1,024 -> 1,536 bytes (+512)",
    ]


def test_what_grew_shrank_or_took_another_form_is_told_with_both() -> None:
    before = plan_of(*BASE)
    grown = plan_of(BASE[0], (Region.T_TEMP_FP32, 121, "scratch"))
    kept = plan_of(BASE[0], (Region.T_TEMP_FP32, 119, "scratch"))
    was, now = "FP32[120,1,1,1], 512 bytes at 512", "FP32[121,1,1,1], 1,024 bytes at 512"
    assert before.diff(grown).splitlines() == [
        f"> T_TEMP_FP32 'scratch': {was} -> {now} (+512)",
        "total 1,024 -> 1,536 bytes (+512)",
    ]
    assert grown.diff(before).splitlines() == [
        f"< T_TEMP_FP32 'scratch': {now} -> {was} (-512)",
        "total 1,536 -> 1,024 bytes (-512)",
    ]
    assert (
        before.diff(kept).splitlines()[0].startswith(f"= T_TEMP_FP32 'scratch': {was} -> FP32[119")
    )


def test_tensors_of_one_name_are_told_apart_by_their_turn() -> None:
    twice = plan_of((Region.T_TEMP_FP32, 1, "x"), (Region.T_TEMP_FP32, 1, "x"))
    once = plan_of((Region.T_TEMP_FP32, 1, "x"))
    assert once.diff(twice).splitlines()[0] == (
        "+ T_TEMP_FP32 'x' #1: FP32[1,1,1,1], 512 bytes at 512"
    )


def test_another_variant_is_a_difference_though_nothing_moves() -> None:
    big = InputBuffer(4, Shape(1, 8, 8, 3), DType.FP32)
    small = InputBuffer(4, Shape(1, 4, 4, 3), DType.FP32)
    one, two = (
        MemoryPlan().input_buffers(inputs=each).finalize() for each in ([big], [big, small])
    )
    lines = one.diff(two).splitlines()
    assert [line[0] for line in lines] == ["=", "=", "=", "=", "t"]
    assert "FP32[4,8,8,3]|FP32[4,4,4,3]" in lines[1]

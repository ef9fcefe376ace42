import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis.strategies import floats, lists, text

from dtsflow.memory.drawing import draw_svg, spread
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

NAMESPACE = "{http://www.w3.org/2000/svg}"


def every_region() -> MemoryPlan:
    plan = MemoryPlan()
    for region in Region:
        plan.allocate(region, Shape(1, 1, 1, 1), min(region.dtypes, key=lambda each: each.value))
    return plan.finalize()


def drawn(plan: MemoryPlan) -> ET.Element:
    return ET.fromstring(plan.svg())


def slots(root: ET.Element) -> list[ET.Element]:
    return [
        each for each in root.iter(f"{NAMESPACE}rect") if each.find(f"{NAMESPACE}title") is not None
    ]


def test_slots_are_drawn_to_scale_one_below_the_other() -> None:
    plan = MemoryPlan().input_buffers(batch=4, image=Shape(1, 9, 9, 3), dtype=DType.FP32)
    plan.finalize()
    root = drawn(plan)
    tops = [float(slot.attrib["y"]) for slot in slots(root)]
    heights = [float(slot.attrib["height"]) for slot in slots(root)]
    scale = sum(heights) / plan.total_bytes
    for tensor, top, height in zip(plan.tensors, tops, heights, strict=True):
        assert height == pytest.approx(scale * tensor.slot_bytes, abs=0.01)
        assert top - tops[0] == pytest.approx(scale * tensor.offset, abs=0.01)


def test_every_region_has_a_line_and_no_two_lines_overlap() -> None:
    root = drawn(every_region())
    lines = {
        each.text: float(each.attrib["y"])
        for each in root.iter(f"{NAMESPACE}text")
        if each.text in Region.__members__
    }
    assert list(lines) == [region.name for region in Region]
    assert all(below - above >= 18 for above, below in pairwise(lines.values()))
    assert max(lines.values()) < float(root.attrib["height"])


def test_a_tooltip_tells_what_a_slot_holds() -> None:
    plan = MemoryPlan()
    plan.allocate(Region.T_TEMP_FP32, Shape(1, 1, 1, 7), DType.FP32, "<a> & b\x00")
    (slot,) = slots(drawn(plan.finalize()))
    title = slot.find(f"{NAMESPACE}title")
    assert title is not None
    assert title.text == "T_TEMP_FP32 <a> & b?: FP32[1,1,1,7], 512 bytes at 0"


@given(text())
def test_any_name_leaves_a_document_that_can_be_read(name: str) -> None:
    plan = MemoryPlan()
    plan.allocate(Region.T_TEMP_FP32, Shape(1, 1, 1, 1), DType.FP32, name)
    assert len(slots(drawn(plan.finalize()))) == 1


def test_shares_add_up_and_the_smallest_are_not_called_nothing() -> None:
    plan = MemoryPlan().input_buffers(batch=8, image=Shape(1, 99, 99, 3), dtype=DType.FP32)
    assert re.findall(r">([^<>]*%)<", plan.finalize().svg()) == [
        "&lt; 0.1%",
        "50.0%",
        "&lt; 0.1%",
        "50.0%",
    ]


def test_an_empty_plan_can_be_drawn_as_a_picture() -> None:
    root = ET.fromstring(draw_svg([]))
    assert slots(root) == []
    assert "0 tensors, 0 bytes" in "".join(root.itertext())


@given(lists(floats(-50, 450), max_size=20).map(sorted))
def test_places_keep_their_distance_their_order_and_their_bounds(wanted: list[float]) -> None:
    placed = spread(wanted, gap=20, first=10, last=400)
    assert len(placed) == len(wanted)
    assert all(later - earlier >= 20 - 1e-9 for earlier, later in pairwise(placed))
    assert all(10 <= place <= 400 for place in placed)


def test_places_that_are_far_enough_apart_stay() -> None:
    assert spread([10, 40, 300], gap=20, first=10, last=400) == [10, 40, 300]
    assert spread([390, 395, 399], gap=20, first=10, last=400) == [360, 380, 400]

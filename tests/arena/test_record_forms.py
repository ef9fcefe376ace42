"""Batches of records wherever they live: their first field lies where images do."""

import numpy as np
import pytest
from fake_cuda import FakeCuda

from dtsflow.arena.arena import Form
from dtsflow.arena.device_arena import DeviceArena
from dtsflow.arena.host import Host
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.spec import Field, ImageSpec
from dtsflow.station.double_buffer import DoubleBuffer
from dtsflow.tensor.dtype import DType

X, Y, Z = (
    Field("x", (3, 2), DType.FP64),
    Field("y", (), DType.INT64),
    Field("z", (5,), DType.BF16),
)
FORMS = {
    "train": Form.of_records(4, (X, Y)),
    "val": Form.of_records(6, (Z, X)),
    "images": Form(2, ImageSpec(2, 2, 3, DType.FP16), 4),
}


def plan_of() -> MemoryPlan:
    return MemoryPlan().input_buffers(inputs=[form.buffer for form in FORMS.values()]).finalize()


def test_the_plan_names_the_first_field_and_has_room_for_every_form() -> None:
    main, *others = plan_of().region_tensors(Region.I_A_DATA)
    assert main.name == "x"
    assert [str(form.shape) for form in main.forms] == ["[4,1,3,2]", "[6,1,1,5]", "[2,2,2,3]"]
    assert [tensor.name for tensor in others] == ["y", "x"]


@pytest.mark.parametrize("kind", ["host", "device"])
def test_every_field_arrives_as_it_was_written(kind: str) -> None:
    plan = plan_of()
    arena = Host().open(plan, FORMS) if kind == "host" else DeviceArena(plan, FORMS, FakeCuda())
    for name, fields in (("train", (X, Y)), ("val", (Z, X))):
        rows = FORMS[name].rows
        double_buffer = DoubleBuffer(range(1), chunks=1)
        feed = arena.feed(name, double_buffer, timeout_s=5, progress=str, poison=True)
        assert double_buffer.claim() == (0, 0)
        zone = arena.zones[name][0]
        first, *others = fields
        written = {}
        for number, field in enumerate(fields):
            values = np.arange(np.prod((rows, *field.shape))).reshape(rows, *field.shape)
            written[field.name] = (values + number).astype(field.dtype.numpy)
        zone.images[...] = written[first.name]
        for field in others:
            zone.fields[field.name].array[...] = written[field.name]
        zone.clear_rows(slice(1, 2))
        double_buffer.finish(0)
        delivery = feed.take()
        found = {first.name: delivery.images, **delivery.fields}
        for key, values in written.items():
            values[1] = 0
            assert np.array_equal(np.array(found[key]), values)
        feed.give_back()
        feed.end()
    arena.close()

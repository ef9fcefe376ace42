"""The compiled core against the reference path, bit for bit."""

import io
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from turbojpeg import TJSAMP_411, TJSAMP_440, TurboJPEG

import dtsflow
from dtsflow.decode import turbojpeg
from dtsflow.decode.pillow import PillowDecoder
from dtsflow.decode.turbojpeg import TurboDecoder
from dtsflow.errors import DecodeError
from dtsflow.native.core import CASTS, OWN_FIRST, STEP_NUMBERS, Status, StepKind, load
from dtsflow.po.geometry import resample
from dtsflow.po.normalize import Normalize
from dtsflow.seed import address
from dtsflow.tensor.dtype import DType

found = load()
if found is None:
    pytest.skip("the native core was not built", allow_module_level=True)
core: ModuleType = found

LEVELS = [level for level in ("portable", "avx2") if core.force_cpu_level(level)]
Pixels = npt.NDArray[np.uint8]
NOTHING = np.empty(0, np.float32)


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each set of instructions that this processor has; the best one afterwards."""
    assert core.force_cpu_level(request.param)
    yield request.param
    core.force_cpu_level(LEVELS[-1])


def program_of(kinds: list[StepKind], *, encoded: bool, channels: int = 3) -> Any:
    table = np.empty(0, np.uint8)
    return core.Program(
        [int(kind) for kind in kinds],
        encoded,
        channels,
        channels,
        CASTS[DType.UINT8],
        NOTHING,
        NOTHING,
        table,
    )


def packed(params: list[list[int]]) -> npt.NDArray[np.int32]:
    """Steps of one sample, decoded whole unless a seventh number says otherwise."""
    made = np.zeros((len(params), 1, STEP_NUMBERS), np.int32)
    for step, numbers in zip(made, params, strict=True):
        step[0, :7] = [*numbers, 1][:7]
    return made


def run(
    program: Any,
    data: bytes | Pixels,
    shape: tuple[int, int],
    params: list[list[int]],
    out: npt.NDArray[Any],
) -> int:
    """Run `program` on one sample; the status."""
    memory = np.frombuffer(bytes(data), np.uint8)
    zero, status = np.zeros(1, np.int64), np.full(1, -1, np.int32)
    core.run_chunk(
        program,
        memory,
        zero,
        np.array([len(memory)], np.int64),
        np.array([shape], np.int32),
        packed(params),
        out.view(np.uint8).reshape(-1),
        zero,
        np.array([out.shape[:2]], np.int32),
        status,
    )
    return int(status[0])


def probe(data: bytes) -> tuple[int, int, int, int]:
    memory = np.frombuffer(data, np.uint8)
    facts = np.empty((1, 4), np.int32)
    core.probe(memory, np.zeros(1, np.int64), np.array([len(memory)], np.int64), facts)
    height, width, exif, status = facts[0].tolist()
    return height, width, exif, status


def crop(data: bytes, shape: tuple[int, int], window: tuple[int, int, int, int]) -> Pixels:
    """Decode only `window`, by the core."""
    out = np.full((window[2], window[3], 3), 0xCC, np.uint8)
    program = program_of([StepKind.CROP], encoded=True)
    assert run(program, data, shape, [[*window, *window[2:]]], out) == Status.OK
    return out


def photo(rng: np.random.Generator, height: int, width: int) -> Pixels:
    coarse = rng.integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), np.uint8)
    smooth = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    noise = rng.integers(0, 40, (height, width, 3), np.uint8)
    made: Pixels = np.asarray(smooth) // 2 + noise + 40
    return made


def encode(rng: np.random.Generator, pixels: Pixels) -> bytes:
    """A JPEG of any kind that the core decodes."""
    kind = rng.integers(8)
    if kind >= 6:
        sampling = TJSAMP_440 if kind == 6 else TJSAMP_411
        library: TurboJPEG = turbojpeg.load()
        return bytes(library.encode(pixels, quality=85, jpeg_subsample=sampling))
    stored, image = io.BytesIO(), Image.fromarray(pixels)
    options: dict[str, Any] = {"quality": int(rng.integers(30, 96))}
    if kind == 5:
        image = image.convert("L")
    else:
        options["subsampling"] = int(kind) % 3
    if rng.integers(4) == 0:
        options["progressive"] = True
    if rng.integers(4) == 0:
        options["restart_marker_blocks"] = int(rng.integers(1, 9))
    image.save(stored, "JPEG", **options)
    if rng.integers(3) == 0:
        marked: bytes = core.add_restarts(stored.getvalue())
        return marked
    return stored.getvalue()


def windows(rng: np.random.Generator, height: int, width: int, count: int) -> list[Any]:
    found = []
    for _ in range(count):
        h, w = int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))
        y, x = int(rng.integers(0, height - h + 1)), int(rng.integers(0, width - w + 1))
        found.append((y, x, h, w))
    return [*found, (0, 0, height, width)]


@pytest.mark.parametrize("seed", range(20))
def test_a_region_decode_is_the_crop_of_the_full_decode(seed: int) -> None:
    """Together 2,000 images of 1 to 3,000 pixels a side, every kind and subsampling."""
    rng, decoder = np.random.default_rng(seed), TurboDecoder("ignore")
    for number in range(100):
        largest = 3000 if number == 0 else 400
        height, width = (int(side) for side in np.exp(rng.uniform(0, np.log(largest), 2)))
        data = encode(rng, photo(rng, height, width))
        full = decoder.decode(data)
        assert probe(data) == (height, width, 0, Status.OK)
        for y, x, h, w in windows(rng, height, width, 3):
            part = crop(data, (height, width), (y, x, h, w))
            assert np.array_equal(part, full[y : y + h, x : x + w]), (seed, number, y, x, h, w)


@pytest.mark.parametrize("name", [*(f"imagenet_train_lv{n}" for n in range(4)), "imagenet_val_lv3"])
def test_reference_images_decode_alike_whole_and_in_parts(reference: Path, name: str) -> None:
    rng, decoder = np.random.default_rng(0), TurboDecoder("ignore")
    with dtsflow.volume.open(reference / f"{name}.dts") as volume:
        for sample in volume:
            data = bytes(sample.data)
            height, width, _, status = probe(data)
            full = decoder.decode(data)
            if status == Status.NOT_OURS:
                assert Image.open(io.BytesIO(data)).mode == "CMYK"
                continue
            assert full.shape == (height, width, 3)
            for y, x, h, w in windows(rng, height, width, 2):
                part = crop(data, (height, width), (y, x, h, w))
                assert np.array_equal(part, full[y : y + h, x : x + w])


@pytest.mark.parametrize("scale", [2, 4, 8])
def test_a_scaled_region_is_the_crop_of_the_scaled_decode(scale: int) -> None:
    rng, decoder = np.random.default_rng(scale), TurboDecoder("ignore")
    program = program_of([StepKind.CROP], encoded=True)
    for _ in range(120):
        height, width = (int(side) for side in scale * np.exp(rng.uniform(0, np.log(40), 2)))
        data = encode(rng, photo(rng, height, width))
        full = decoder.decode(data, scale)
        assert full.shape[:2] == (-(-height // scale), -(-width // scale))
        assert np.array_equal(full, PillowDecoder("ignore").decode(data, scale))
        for y, x, h, w in windows(rng, full.shape[0], full.shape[1], 3):
            out = np.full((h, w, 3), 0xCC, np.uint8)
            step = [y, x, h, w, h, w, scale]
            assert run(program, data, (height, width), [step], out) == Status.OK
            assert np.array_equal(out, full[y : y + h, x : x + w]), (height, width, y, x, h, w)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("channels", [1, 3])
def test_resampling_is_the_reference_at_every_level(
    level: str,
    channels: int,
    antialias: bool,  # noqa: FBT001  # pytest passes it by name
) -> None:
    rng = np.random.default_rng(len(level) + channels)
    kind = StepKind.SCALE if antialias else StepKind.SCALE_PLAIN
    program = program_of([kind], encoded=False, channels=channels)
    for _ in range(250):
        h, w, out_h, out_w = (int(side) for side in np.exp(rng.uniform(0, np.log(300), 4)))
        image = rng.integers(0, 256, (h, w, channels), np.uint8)
        wanted = np.empty((out_h, out_w, channels), np.uint8)
        resample(image, wanted, antialias=antialias)
        out = np.full_like(wanted, 0xCC)
        assert run(program, image, (h, w), [[0, 0, h, w, out_h, out_w]], out) == Status.OK
        assert np.array_equal(out, wanted), (h, w, out_h, out_w)


@pytest.mark.parametrize("stored", [3, 4])
@pytest.mark.parametrize("dtype", [DType.FP32, DType.FP16, DType.BF16, DType.UINT8])
def test_the_final_write_is_mirror_normalise_cast_and_pad(
    level: str, dtype: DType, stored: int
) -> None:
    rng = np.random.default_rng(1)
    stored_as_is = dtype is DType.UINT8
    normalize = Normalize(preset="none" if stored_as_is else "imagenet", dtype=dtype)
    finish = normalize.finish(3)
    table = np.ascontiguousarray(finish.table).view(np.uint8).reshape(-1)
    kinds = [int(StepKind.MIRROR)]
    program = core.Program(
        kinds,
        encoded=False,
        channels=3,
        stored_channels=stored,
        cast=CASTS[dtype],
        scale=finish.scale,
        offset=finish.offset,
        table=table,
    )
    for width in (1, 2, 3, 7, 16, 31):
        for flip in (0, 1):
            image = rng.integers(0, 256, (5, width, 3), np.uint8)
            wanted = np.zeros((5, width, stored), dtype.numpy)
            row = np.empty(1, [])[0]
            normalize.apply(image[:, ::-1] if flip else image, wanted[..., :3], row)
            out = np.full_like(wanted, 77)
            assert run(program, image, (5, width), [[flip, 0, 0, 0, 0, 0]], out) == Status.OK
            assert np.array_equal(out, wanted), (level, width, flip)


def test_every_value_of_a_pixel_is_normalised_alike_at_every_level(level: str) -> None:
    values = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    for mean, std in (((0.0,), (1.0,)), ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))):
        normalize = Normalize(mean=mean, std=std, dtype=DType.FP16)
        finish = normalize.finish(3)
        table = np.ascontiguousarray(finish.table).view(np.uint8).reshape(-1)
        program = core.Program(
            [],
            encoded=False,
            channels=3,
            stored_channels=4,
            cast=CASTS[DType.FP16],
            scale=finish.scale,
            offset=finish.offset,
            table=table,
        )
        wanted = np.zeros((16, 16, 4), np.float16)
        normalize.apply(values, wanted[..., :3], np.empty(1, [])[0])
        out = np.full_like(wanted, 77)
        assert run(program, values, (16, 16), [], out) == Status.OK
        assert out.tobytes() == wanted.tobytes(), level


def test_mirrors_between_other_steps_happen_where_they_stand() -> None:
    rng = np.random.default_rng(3)
    image = rng.integers(0, 256, (20, 30, 3), np.uint8)
    kinds = [StepKind.MIRROR, StepKind.CROP, StepKind.MIRROR, StepKind.SCALE, StepKind.MIRROR]
    program = program_of(kinds, encoded=False)
    params = [
        [1, 0, 0, 0, 20, 30],
        [2, 3, 10, 20, 10, 20],
        [1, 0, 0, 0, 10, 20],
        [0, 5, 10, 12, 6, 9],
        [1, 0, 0, 0, 6, 9],
    ]
    middle = image[:, ::-1][2:12, 3:23][:, ::-1][:, 5:17]
    wanted = np.empty((6, 9, 3), np.uint8)
    resample(np.ascontiguousarray(middle), wanted, antialias=True)
    out = np.empty_like(wanted)
    assert run(program, image, (20, 30), params, out) == Status.OK
    assert np.array_equal(out, wanted[:, ::-1])


@given(y=st.integers(-9, 9), x=st.integers(-9, 9), h=st.integers(1, 20), w=st.integers(1, 20))
def test_a_crop_that_leaves_the_image_is_padded_with_zeros(y: int, x: int, h: int, w: int) -> None:
    image = np.arange(1, 8 * 9 * 3 + 1, dtype=np.uint8).reshape(8, 9, 3)
    padded = np.zeros((8 + 60, 9 + 60, 3), np.uint8)
    padded[30:38, 30:39] = image
    out = np.full((h, w, 3), 0xCC, np.uint8)
    program = program_of([StepKind.CROP], encoded=False)
    assert run(program, image, (8, 9), [[y, x, h, w, h, w]], out) == Status.OK
    assert np.array_equal(out, padded[30 + y : 30 + y + h, 30 + x : 30 + x + w])


def test_philox_gives_the_reference_words() -> None:
    counters = np.random.default_rng(0).integers(0, 1 << 32, (1000, 4), np.uint32)
    words = address.philox4x32(counters, (7, 0xFFFFFFFF))
    assert np.array_equal(words, address._encrypt(counters, (7, 0xFFFFFFFF)))


def hostile() -> dict[str, bytes]:
    rng = np.random.default_rng(9)
    stored = io.BytesIO()
    Image.fromarray(photo(rng, 90, 120)).save(stored, "JPEG", quality=90)
    good = stored.getvalue()
    frame = good.index(b"\xff\xc0")
    scan = good.index(b"\xff\xda")
    stored = io.BytesIO()
    Image.fromarray(photo(rng, 90, 120)).save(stored, "JPEG", progressive=True)
    progressive = stored.getvalue()
    last = progressive.rindex(b"\xff\xda")
    return {
        "empty": b"",
        "text": b"no image at all",
        "png": b"\x89PNG\r\n\x1a\n" + bytes(60),
        "start alone": good[:2],
        "cut in the header": good[: frame + 5],
        "cut in the scan": good[: len(good) // 2],
        "no end marker": good[:-2],
        "zeroed scan": good[: scan + 40] + bytes(len(good) - scan - 42) + good[-2:],
        "arithmetic": good[: frame + 1] + b"\xc9" + good[frame + 2 :],
        "12 bits": good[: frame + 4] + b"\x0c" + good[frame + 5 :],
        "65,500 pixels": good[: frame + 5] + b"\xff\xdc\xff\xdc" + good[frame + 9 :],
        "hundreds of scans": progressive[:last] + progressive[last:-2] * 600 + b"\xff\xd9",
        "no size": good[: frame + 5] + bytes(4) + good[frame + 9 :],
    }


@pytest.mark.parametrize("name", hostile())
def test_hostile_bytes_get_a_status_and_never_someone_elses_pixels(name: str) -> None:
    data = hostile()[name]
    height, width, _, status = probe(data)
    if name != "arithmetic":  # which Pillow does decode
        with pytest.raises(DecodeError):
            TurboDecoder("ignore").decode(data)
    out = np.full((90, 120, 3), 0xCC, np.uint8)
    program = program_of([StepKind.CROP], encoded=True)
    ran = run(program, data, (height or 90, width or 120), [[0, 0, 90, 120, 90, 120]], out)
    if status == Status.OK:
        assert ran == Status.DAMAGED
    assert ran in (Status.DAMAGED, Status.MISFIT)
    assert (out == 0xCC).all()


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bits_give_the_reference_pixels_or_are_refused(seed: int) -> None:
    rng, decoder = np.random.default_rng(seed), TurboDecoder("ignore")
    data = bytearray(encode(rng, photo(rng, 60, 70)))
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            damaged[int(rng.integers(2, len(damaged)))] ^= 1 << int(rng.integers(8))
        height, width, _, status = probe(bytes(damaged))
        if status != Status.OK or height * width > 1 << 20:
            continue
        out = np.full((height, width, 3), 0xCC, np.uint8)
        whole = [[0, 0, height, width, height, width]]
        ran = run(
            program_of([StepKind.CROP], encoded=True), bytes(damaged), (height, width), whole, out
        )
        try:
            wanted = decoder.decode(bytes(damaged))
        except DecodeError:
            assert ran == Status.DAMAGED
        else:
            assert ran == Status.OK
            assert np.array_equal(out, wanted)


@pytest.mark.parametrize(
    ("params", "shape"),
    [
        ([0, 0, 9, 9, 4, 4], (8, 8)),
        ([-1, 0, 4, 4, 4, 4], (8, 8)),
        ([0, 0, 0, 4, 4, 4], (8, 8)),
        ([0, 0, 1 << 30, 1 << 30, 4, 4], (8, 8)),
        ([2, 2, 2147483647, 4, 4, 4], (8, 8)),
        ([0, 0, 4, 4, 4, 4], (8, 9)),
        ([0, 0, 4, 4, 5, 4], (8, 8)),
    ],
)
def test_parameters_that_do_not_fit_are_a_status_and_write_nothing(
    params: list[int], shape: tuple[int, int]
) -> None:
    out = np.full((4, 4, 3), 0xCC, np.uint8)
    program = program_of([StepKind.SCALE], encoded=False)
    image = np.zeros((8, 8, 3), np.uint8)
    assert run(program, image, shape, [params], out) == Status.MISFIT
    assert (out == 0xCC).all()


@pytest.mark.parametrize(
    ("offset", "size", "row"),
    [(-1, 4, 0), (0, 200, 0), (1 << 62, 1 << 62, 0), (0, 192, 1), (0, 192, -1)],
)
def test_places_outside_the_arrays_are_refused(offset: int, size: int, row: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        core.run_chunk(
            program_of([], encoded=False),
            np.zeros(192, np.uint8),
            np.array([offset]),
            np.array([size]),
            np.array([[8, 8]], np.int32),
            np.empty((0, 1, STEP_NUMBERS), np.int32),
            np.zeros(192, np.uint8),
            np.array([row]),
            np.array([[8, 8]], np.int32),
            np.empty(1, np.int32),
        )


@settings(max_examples=40)
@given(data=st.binary(max_size=300))
def test_any_bytes_get_a_status(data: bytes) -> None:
    for start in (b"", b"\xff\xd8\xff", b"\xff\xd8\xff\xc0\x00\x11\x08\x00\x05\x00\x05\x03"):
        height, width, _, status = probe(start + data)
        assert status in (Status.OK, Status.NOT_OURS)
        if status == Status.OK:
            out = np.empty((1, 1, 3), np.uint8)
            program = program_of([StepKind.CROP], encoded=True)
            assert run(program, start + data, (height, width), [[0, 0, 1, 1, 1, 1]], out) >= 0


def without_tables(data: bytes, marker: bytes) -> bytes:
    """`data` without its segments of this marker, so a decoder must bring its own."""
    kept, at = [data[:2]], 2
    while data[at : at + 2] != b"\xff\xda":
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if data[at : at + 2] != marker:
            kept.append(data[at:end])
        at = end
    return b"".join([*kept, data[at:]])


@pytest.mark.parametrize("marker", [b"\xff\xdb", b"\xff\xc4"], ids=["quantisation", "huffman"])
def test_no_image_is_decoded_with_the_tables_of_the_one_before(marker: bytes) -> None:
    stored_image = io.BytesIO()
    Image.fromarray(photo(np.random.default_rng(0), 24, 24)).save(stored_image, "JPEG")
    good = stored_image.getvalue()
    bare = without_tables(good, marker)
    program, out = program_of([], encoded=True), np.zeros((24, 24, 3), np.uint8)
    assert probe(bare) == (24, 24, 0, Status.OK)
    assert run(program, good, (24, 24), [], out) == Status.OK
    out[...] = 0xCC
    with_tables_before = run(program, bare, (24, 24), [], out)
    try:
        wanted = TurboDecoder("ignore").decode(bare)
    except DecodeError:
        assert with_tables_before == Status.DAMAGED
        assert (out == 0xCC).all()
    else:  # libjpeg-turbo has the standard Huffman tables for a JPEG without any
        assert np.array_equal(out, wanted)


def test_a_region_of_a_smoothed_progressive_is_the_crop_of_the_whole() -> None:
    """Without its last scans libjpeg smooths over block borders."""
    rng, decoder = np.random.default_rng(5), TurboDecoder("ignore")
    for number in range(12):
        stored_image = io.BytesIO()
        Image.fromarray(photo(rng, 90, 110)).save(stored_image, "JPEG", progressive=True)
        data = stored_image.getvalue()
        scans = [at for at in range(len(data)) if data[at : at + 2] == b"\xff\xda"]
        # A scan is preceded by its own Huffman tables: cut before those.
        cut = data.rfind(b"\xff\xc4", 0, scans[1 + number % (len(scans) - 1)])
        data = data[:cut] + b"\xff\xd9"
        full = decoder.decode(data)
        for y, x, h, w in windows(rng, 90, 110, 6):
            part = crop(data, (90, 110), (y, x, h, w))
            assert np.array_equal(part, full[y : y + h, x : x + w]), (number, y, x, h, w)


def test_a_jpeg_that_would_take_minutes_is_refused_unread() -> None:
    stored_image = io.BytesIO()
    Image.new("L", (8, 8)).save(stored_image, "JPEG", progressive=True)
    small = stored_image.getvalue()
    frame = small.index(b"\xff\xc2")
    huge = small[: frame + 5] + (13377).to_bytes(2, "big") * 2 + small[frame + 9 :]
    scan = small[small.rindex(b"\xff\xda") : -2]
    bomb = huge[:-2] + scan * 100 + b"\xff\xd9"
    assert probe(bomb)[3] == Status.NOT_OURS
    with pytest.raises(DecodeError, match="scans, and at most 24 are decoded"):
        TurboDecoder("ignore").decode(bomb)


def test_a_jpeg_is_decoded_to_three_channels_or_not_at_all() -> None:
    stored_image = io.BytesIO()
    Image.fromarray(photo(np.random.default_rng(0), 24, 24)).save(stored_image, "JPEG")
    out = np.full((24, 24, 4), 0xCC, np.uint8)
    program = program_of([], encoded=True, channels=4)
    assert run(program, stored_image.getvalue(), (24, 24), [], out) == Status.MISFIT
    assert (out == 0xCC).all()


def saved(mode: str, size: tuple[int, int], **options: Any) -> bytes:
    stored_image = io.BytesIO()
    pixels = photo(np.random.default_rng(size[0]), size[1], size[0])
    Image.fromarray(pixels).convert(mode).save(stored_image, "JPEG", **options)
    return stored_image.getvalue()


def test_rgb_in_a_jpeg_is_not_taken_for_ycbcr() -> None:
    data = saved("RGB", (40, 30), keep_rgb=True, quality=95)
    assert np.array_equal(crop(data, (30, 40), (0, 0, 30, 40)), TurboDecoder("ignore").decode(data))
    with Image.open(io.BytesIO(data)) as opened:
        wanted = np.asarray(opened.convert("RGB"))
    assert np.array_equal(crop(data, (30, 40), (3, 5, 20, 30)), wanted[3:23, 5:35])


@pytest.mark.parametrize("transform", [0, 2], ids=["cmyk", "ycck"])
def test_four_components_are_the_reference_decoders(transform: int) -> None:
    data = bytearray(saved("CMYK", (40, 30)))
    data[data.index(b"Adobe") + 11] = transform
    assert probe(bytes(data))[3] == Status.NOT_OURS
    assert TurboDecoder("ignore").decode(bytes(data)).shape == (30, 40, 3)


def test_garbage_behind_the_end_does_not_matter() -> None:
    data = saved("RGB", (5, 5))
    clean = crop(data, (5, 5), (0, 0, 5, 5))
    for garbage in (b"x" * 100, bytes(4096), b"\xff\xd9", data):
        assert probe(data + garbage)[3] == Status.OK
        assert np.array_equal(crop(data + garbage, (5, 5), (0, 0, 5, 5)), clean)


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        (StepKind.JITTER, [4, -1, -1, -1]),
        (StepKind.JITTER, [0, -1, -1, -1, np.float32(-1).view(np.int32)]),
        (StepKind.JITTER, [0, -1, -1, -1, np.float32(np.nan).view(np.int32)]),
        (StepKind.JITTER, [3, -1, -1, -1, 0, 0, 0, 256]),
        (StepKind.BLUR, [30]),
        (StepKind.BLUR, [1, 7]),
        (StepKind.POSTERIZE, [9]),
        (StepKind.SHARPEN, [np.float32(np.inf).view(np.int32)]),
        (StepKind.AUGMENT, [int(StepKind.AUGMENT), -1]),
        (StepKind.AUGMENT, [int(StepKind.POSTERIZE), 9]),
    ],
)
def test_numbers_that_no_operation_draws_are_a_status(kind: StepKind, own: list[int]) -> None:
    numbers = np.zeros((1, 1, STEP_NUMBERS), np.int32)
    numbers[0, 0, OWN_FIRST : OWN_FIRST + len(own)] = own
    image, out = np.zeros(192, np.uint8), np.full(192, 0xCC, np.uint8)
    zero, side, status = np.zeros(1, np.int64), np.array([[8, 8]], np.int32), np.empty(1, np.int32)
    core.run_chunk(
        program_of([kind], encoded=False),
        image, zero, np.array([192]), side, numbers, out, zero, side, status,
    )  # fmt: skip
    assert status[0] == Status.MISFIT
    assert (out == 0xCC).all()


def test_noise_is_refused_without_its_normals() -> None:
    with pytest.raises(ValueError, match="noise takes the normals"):
        program_of([StepKind.NOISE], encoded=False)

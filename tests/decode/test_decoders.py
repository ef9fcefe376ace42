"""What both decoders do alike, on images made here and on the reference volumes."""

import io
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis.strategies import binary, integers, lists, sampled_from, tuples
from PIL import Image, ImageOps
from turbojpeg import TJSAMP_411, TJSAMP_440

from dtsflow.decode.decoder import Decoder, Orientation
from dtsflow.decode.pillow import PillowDecoder
from dtsflow.decode.turbojpeg import TurboDecoder, load
from dtsflow.errors import DecodeError, MissingPartError

Make = Callable[[Orientation], Decoder]
BLOCK = 16 << 20


def has_turbojpeg() -> bool:
    try:
        load()
    except MissingPartError:
        return False
    return True


needs_turbojpeg = pytest.mark.skipif(not has_turbojpeg(), reason="libturbojpeg is not here")
both = pytest.mark.parametrize(
    "make", [pytest.param(TurboDecoder, marks=needs_turbojpeg), PillowDecoder]
)


def photo(height: int, width: int) -> Image.Image:
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(height * 7919 + width).integers(0, 40, (height, width, 3))
    shades = np.stack([x * 3 % 216, y * 5 % 216, x * y % 216], -1) + noise
    return Image.fromarray(shades.astype(np.uint8))


def encoded(image: Image.Image, form: str = "JPEG", **options: object) -> bytes:
    stored = io.BytesIO()
    image.save(stored, form, **options)
    return stored.getvalue()


def as_pillow(stored: bytes | memoryview) -> npt.NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(stored)).convert("RGB"))


def check(decoder: Decoder, stored: bytes | memoryview, expected: npt.NDArray[np.uint8]) -> None:
    image = decoder.decode(stored)
    assert image.dtype == np.uint8
    assert image.flags.c_contiguous
    assert decoder.probe(stored) == image.shape[:2]
    assert np.array_equal(image, expected)


def jpegs_of(path: Path) -> Iterator[memoryview]:
    """The samples of an ImageNet volume, parsed by hand, not by the package."""
    volume = memoryview(path.read_bytes())
    for start in range(BLOCK, len(volume), BLOCK):
        block = volume[start : start + BLOCK]
        (count,) = struct.unpack_from("<I", block, 8)
        offsets, sizes = np.frombuffer(block, "<u4", 2 * count, 12).reshape(2, count).tolist()
        for offset, size in zip(offsets, sizes, strict=True):
            yield block[offset : offset + size]


@both
@pytest.mark.parametrize(
    "name",
    [
        *(f"imagenet_train_lv{level}.dts" for level in range(4)),
        "imagenet_val_lv3.dts",
    ],
)
def test_every_reference_image_equals_pillows(make: Make, name: str, reference: Path) -> None:
    decoder = make("ignore")
    count = 0
    for stored in jpegs_of(reference / name):
        check(decoder, stored, as_pillow(stored))
        count += 1
    assert count > 50


SIZES = [(1, 1), (5, 5), (7, 5), (15, 15), (1, 2000), (2000, 1), (2, 3), (97, 131)]


@both
@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
def test_every_sampling_equals_pillows(
    make: Make, height: int, width: int, subsampling: str, *, progressive: bool
) -> None:
    stored = encoded(photo(height, width), subsampling=subsampling, progressive=progressive)
    check(make("ignore"), stored, as_pillow(stored))


@needs_turbojpeg
@both
@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("subsample", [TJSAMP_440, TJSAMP_411])
def test_rare_sampling_equals_pillows(make: Make, height: int, width: int, subsample: int) -> None:
    shades = np.asarray(photo(height, width))
    stored = load().encode(shades, jpeg_subsample=subsample)
    check(make("ignore"), stored, as_pillow(stored))


@both
@pytest.mark.parametrize("mode", ["L", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
def test_gray_and_cmyk_equal_pillows(make: Make, mode: str, *, progressive: bool) -> None:
    stored = encoded(photo(33, 47).convert(mode), progressive=progressive)
    check(make("ignore"), stored, as_pillow(stored))


@both
def test_ycck_equals_pillows(make: Make) -> None:
    stored = encoded(photo(33, 47).convert("CMYK"))
    adobe = stored.index(b"Adobe")
    ycck = stored[: adobe + 11] + b"\x02" + stored[adobe + 12 :]
    assert not np.array_equal(as_pillow(ycck), as_pillow(stored))
    check(make("ignore"), ycck, as_pillow(ycck))


@both
def test_a_red_square_is_red(make: Make) -> None:
    stored = encoded(Image.new("RGB", (16, 16), (255, 0, 0)), quality=100, subsampling=0)
    assert make("ignore").decode(stored)[8, 8].tolist() == pytest.approx([255, 0, 0], abs=2)


@both
def test_rgb_inside_a_jpeg_equals_pillows(make: Make) -> None:
    stored = encoded(photo(33, 47), keep_rgb=True)
    check(make("ignore"), stored, as_pillow(stored))


@both
def test_restart_markers_and_a_colour_profile_change_nothing(make: Make) -> None:
    stored = encoded(photo(33, 47), restart_marker_blocks=2, icc_profile=bytes(300))
    check(make("ignore"), stored, as_pillow(stored))


@both
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_orientation_is_ignored_or_applied(make: Make, orientation: int, form: str) -> None:
    tags = Image.Exif()
    tags[0x0112] = orientation
    stored = encoded(photo(20, 34), form, exif=tags, **({} if form == "PNG" else {"quality": 90}))
    check(make("ignore"), stored, as_pillow(stored))
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(stored)).convert("RGB"))
    check(make("apply"), stored, np.asarray(upright))


@both
def test_damaged_metadata_says_nothing_against_the_pixels(make: Make) -> None:
    plain = encoded(photo(20, 34))
    # A count of entries far beyond the segment; Pillow warns of it, where it looks.
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 9) + struct.pack("<HHII", 0x011A, 5, 1, 999)
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    jfif = plain.index(b"\xff\xdb")  # without JFIF there is no resolution, so Pillow looks
    stored = plain[:2] + segment + plain[jfif:]
    check(make("ignore"), stored, as_pillow(plain))
    check(make("apply"), stored, as_pillow(plain))


@both
@pytest.mark.parametrize("form", ["PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
def test_what_is_no_jpeg_goes_through_pillow(make: Make, form: str) -> None:
    stored = encoded(photo(20, 34), form)
    check(make("ignore"), stored, as_pillow(stored))


@both
@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGBA", "P"])
def test_png_of_every_mode_equals_pillows(make: Make, mode: str) -> None:
    stored = encoded(photo(20, 34).convert(mode), "PNG")
    check(make("ignore"), stored, as_pillow(stored))


@both
def test_transparency_is_dropped(make: Make) -> None:
    palette = photo(20, 34).convert("P", palette=Image.Palette.ADAPTIVE)
    clear = encoded(palette, "PNG", transparency=bytes(range(256)))
    check(make("ignore"), clear, as_pillow(encoded(palette, "PNG")))
    layer = photo(20, 34).convert("RGBA")
    layer.putalpha(7)
    check(make("ignore"), encoded(layer, "PNG"), np.asarray(photo(20, 34)))


@both
def test_of_16_bits_gray_the_high_8_are_kept(make: Make) -> None:
    ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    stored = encoded(Image.fromarray(ramp), "PNG")
    expected = np.repeat((ramp >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
    check(make("ignore"), stored, expected)


@both
def test_float_pixels_are_refused(make: Make) -> None:
    stored = encoded(Image.fromarray(np.zeros((4, 4), np.float32)), "TIFF")
    with pytest.raises(DecodeError, match="floats"):
        make("ignore").decode(stored)


@both
@pytest.mark.parametrize("percent", [25, 50, 99])
@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_a_truncated_file_is_bad(make: Make, percent: int, form: str) -> None:
    stored = encoded(photo(97, 131), form)
    with pytest.raises(DecodeError):
        make("ignore").decode(stored[: len(stored) * percent // 100])


@both
def test_a_jpeg_without_its_end_is_bad_to_probe_and_decode_alike(make: Make) -> None:
    stored = encoded(photo(97, 131))[:-2]
    with pytest.raises(DecodeError, match="end-of-image"):
        make("ignore").decode(stored)
    with pytest.raises(DecodeError, match="end-of-image"):
        make("ignore").probe(stored)


@both
@pytest.mark.parametrize("stored", [b"", b"x", b"\xff\xd8\xff", b"some text\n" * 50, bytes(999)])
def test_what_is_no_image_is_bad(make: Make, stored: bytes) -> None:
    with pytest.raises(DecodeError):
        make("ignore").probe(stored)
    with pytest.raises(DecodeError):
        make("ignore").decode(stored)


@both
def test_garbage_behind_the_end_is_accepted(make: Make) -> None:
    stored = encoded(photo(20, 34))
    check(make("ignore"), stored + b"\0garbage" * 99, as_pillow(stored))


@both
@pytest.mark.parametrize("side", [65_500, 13_378])
def test_a_bomb_is_refused_unread(make: Make, side: int) -> None:
    stored = bytearray(encoded(photo(8, 8)))
    frame = stored.index(b"\xff\xc0")
    stored[frame + 5 : frame + 9] = side.to_bytes(2, "big") * 2
    with pytest.raises(DecodeError, match="at most 178956970"):
        make("ignore").decode(bytes(stored))


@both
def test_a_bomb_in_a_png_is_refused_unread(make: Make) -> None:
    stored = encoded(Image.new("1", (20_000, 10_000)), "PNG")
    with pytest.raises(DecodeError, match="10000 x 20000"):
        make("ignore").probe(stored)


@both
def test_12_bit_samples_are_refused(make: Make) -> None:
    stored = bytearray(encoded(photo(8, 8)))
    stored[stored.index(b"\xff\xc0") + 4] = 12
    with pytest.raises(DecodeError, match="12-bit"):
        make("ignore").decode(bytes(stored))


@needs_turbojpeg
def test_a_warning_of_libjpegs_makes_a_sample_bad() -> None:
    stored = encoded(photo(97, 131))
    short = stored[: len(stored) // 2] + b"\xff\xd9"
    with pytest.raises(DecodeError, match="libjpeg-turbo: "):
        TurboDecoder("ignore").decode(short)


@needs_turbojpeg
def test_a_shared_decoder_serves_many_threads() -> None:
    decoder = TurboDecoder("ignore")
    good = [encoded(photo(40 + n, 50)) for n in range(8)]
    bad = [stored[:400] + b"\xff\xd9" for stored in good]

    def judge(stored: bytes) -> npt.NDArray[np.uint8] | None:
        try:
            return decoder.decode(stored)
        except DecodeError:
            return None

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(judge, [*good, *bad] * 20))
    for turn in range(20):
        part = results[16 * turn : 16 * turn + 16]
        for stored, image in zip(good, part[:8], strict=True):
            assert image is not None
            assert np.array_equal(image, as_pillow(stored))
        assert part[8:] == [None] * 8


SEEDS = [
    encoded(photo(17, 23)),
    encoded(photo(17, 23), progressive=True),
    encoded(photo(17, 23).convert("CMYK")),
    encoded(photo(17, 23), "PNG"),
    encoded(photo(17, 23), "GIF"),
    encoded(photo(17, 23), "WEBP"),
]


@both
@settings(max_examples=300, deadline=None)
@given(sampled_from(SEEDS), lists(tuples(integers(0, 700), integers(0, 255)), max_size=4), binary())
def test_any_damage_gives_an_image_of_the_probed_size_or_a_reason(
    make: Make, seed: bytes, changes: list[tuple[int, int]], tail: bytes
) -> None:
    stored = bytearray(seed + tail)
    for place, byte in changes:
        stored[place % len(stored)] = byte
    decoder = make("apply")
    try:
        image = decoder.decode(stored)
    except DecodeError:
        return
    assert decoder.probe(stored) == image.shape[:2]

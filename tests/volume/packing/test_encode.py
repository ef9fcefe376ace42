import contextlib
import io
import os
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from dtsflow.testing import jpeg
from dtsflow.volume.format.header import aligned
from dtsflow.volume.packing.encode import (
    Encoded,
    Unusable,
    encode,
    measure,
    measure_stored,
    rgb_histogram,
    shrink,
)
from dtsflow.volume.packing.options import Encoding, Level, Recipe
from dtsflow.volume.source.base import whole_file

ORIENTATION = 0x0112
FORMATS = ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF"]
RNG = np.random.default_rng(4)


def recipe(level: Level = 1, *, upstream: bool = False) -> Recipe:
    made = Encoding(level=level).recipe(upstream=upstream)
    assert made is not None
    return made


PLAIN, UPSTREAM = recipe(), recipe(upstream=True)


def picture(mode: str = "RGB", width: int = 40, height: int = 30) -> Image.Image:
    """Coarse enough for a JPEG to keep its pixels nearly as they are."""
    coarse = RNG.integers(0, 256, (2, 2, 3), np.uint8)
    image = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    return image.convert(mode)


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def opened(encoded: Encoded) -> Image.Image:
    image = Image.open(io.BytesIO(encoded.data))
    image.load()
    assert image.format == "JPEG"
    assert image.size == (encoded.width, encoded.height)
    return image


def far(left: Image.Image, right: Image.Image) -> float:
    """The mean difference of two images' pixels."""
    assert (left.mode, left.size) == (right.mode, right.size)
    pixels = [np.asarray(image, dtype=np.float64) for image in (left, right)]
    return float(np.abs(pixels[0] - pixels[1]).mean())


def with_segment(data: bytes, payload: bytes, marker: bytes = b"\xff\xe1") -> bytes:
    """A JPEG with one more segment in front."""
    return data[:2] + marker + struct.pack(">H", len(payload) + 2) + payload + data[2:]


def png_of_size(width: int, height: int) -> bytes:
    """The first bytes of a PNG, which is as far as measuring reads."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT" + bytes(4)


def with_orientation(form: str, value: int, image: Image.Image) -> bytes:
    if form == "TIFF":
        return saved(image, form, tiffinfo={ORIENTATION: value})
    exif = Image.Exif()
    exif[ORIENTATION] = value
    return saved(image, form, exif=exif.tobytes())


# What becomes of the pixels.


@pytest.mark.parametrize(
    ("mode", "form", "kept"),
    [("L", "JPEG", "L"), ("L", "PNG", "L"), ("CMYK", "JPEG", "CMYK"), ("CMYK", "TIFF", "CMYK")]
    + [("RGB", form, "RGB") for form in FORMATS if form != "GIF"]
    + [("RGBA", "PNG", "RGB"), ("RGBA", "WEBP", "RGB"), ("RGBA", "TIFF", "RGB")]
    + [("P", "PNG", "RGB"), ("P", "GIF", "RGB"), ("P", "BMP", "RGB")]
    + [("1", "PNG", "L"), ("1", "TIFF", "L"), ("1", "BMP", "L"), ("LA", "PNG", "L")]
    + [("YCbCr", "TIFF", "RGB"), ("LAB", "TIFF", "RGB")],
)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_each_mode_has_its_policy(mode: str, form: str, kept: str, level: Level) -> None:
    source = picture("RGB" if mode == "LAB" else mode, 8, 8)
    stored = Image.new("LAB", source.size, (128, 0, 0)) if mode == "LAB" else source
    assert opened(encode(saved(stored, form), recipe(level))).mode == kept


@pytest.mark.parametrize(("mode", "form"), [("L", "PNG"), ("RGB", "PNG"), ("RGB", "TIFF")])
def test_the_pixels_stay_what_they_were(mode: str, form: str) -> None:
    image = picture(mode)
    assert far(opened(encode(saved(image, form), PLAIN)), image) < 4


@pytest.mark.parametrize("form", ["JPEG", "TIFF"])
def test_cmyk_is_not_inverted_on_the_way(form: str) -> None:
    image = Image.new("CMYK", (16, 16), (10, 200, 60, 30))
    assert far(opened(encode(saved(image, form), PLAIN)), image) < 3
    assert far(opened(encode(saved(image, form), UPSTREAM)), image) < 3


def test_alpha_is_dropped_and_not_blended() -> None:
    image = Image.new("RGBA", (16, 16), (200, 100, 50, 0))
    assert opened(encode(saved(image, "PNG"), PLAIN)).getpixel((8, 8)) == (200, 100, 50)
    gray = Image.new("LA", (16, 16), (90, 0))
    assert opened(encode(saved(gray, "PNG"), PLAIN)).getpixel((8, 8)) == 90


def test_a_palette_is_looked_up_before_scaling_and_by_upstream_after() -> None:
    # Two colours in fine stripes: scaled as colours they mix, as numbers they cannot.
    striped = Image.fromarray(np.tile(np.array([0, 1], np.uint8), (500, 250)))
    striped.putpalette([255, 0, 0, 0, 0, 255])
    data = saved(striped, "PNG")
    assert Image.open(io.BytesIO(data)).mode == "P"
    mixed = np.asarray(opened(encode(data, PLAIN)), np.int64)
    assert mixed.shape == (400, 400, 3)
    expected = striped.convert("RGB").resize((400, 400), Image.Resampling.LANCZOS)
    assert far(opened(encode(data, PLAIN)), expected) < 30
    by_number = striped.resize((400, 400), Image.Resampling.LANCZOS).convert("RGB")
    assert encode(data, UPSTREAM).data == saved(by_number, "JPEG", quality=90)
    assert encode(data, UPSTREAM).data != encode(data, PLAIN).data


@pytest.mark.parametrize("order", ["<u2", ">u2"])
def test_of_16_bits_the_upper_8_are_kept(order: str) -> None:
    values = np.linspace(0, 65535, 40 * 40).reshape(40, 40).astype(order)
    mode = "I;16" if order == "<u2" else "I;16B"
    image = Image.frombytes(mode, (40, 40), values.tobytes())
    got = opened(encode(saved(image, "TIFF"), PLAIN))
    assert far(got, Image.fromarray((values >> 8).astype(np.uint8))) < 2
    if order == "<u2":
        assert far(opened(encode(saved(image, "PNG"), PLAIN)), got) == 0


def test_pixels_without_a_stated_range_are_refused() -> None:
    with pytest.raises(Unusable, match="32-bit floats"):
        encode(saved(Image.fromarray(np.zeros((4, 4), np.float32)), "TIFF"), PLAIN)
    for wrong in (-1, 65_536):
        values = np.full((4, 4), wrong, np.int32)
        with pytest.raises(Unusable, match="more than 16 bits"):
            encode(saved(Image.fromarray(values), "TIFF"), PLAIN)
    values = np.full((4, 4), 65_535, np.int32)
    assert opened(encode(saved(Image.fromarray(values), "TIFF"), PLAIN)).getpixel((1, 1)) == 255


def test_of_an_animation_the_first_picture_is_taken() -> None:
    first, second = Image.new("RGB", (8, 8), (250, 0, 0)), Image.new("RGB", (8, 8), (0, 0, 250))
    for form in ("GIF", "WEBP", "PNG", "TIFF"):
        data = saved(first, form, save_all=True, append_images=[second])
        red, _, blue = np.asarray(opened(encode(data, PLAIN)))[4, 4].tolist()
        assert red > 200
        assert blue < 50


# What Pillow does to metadata.


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("value", range(11))
def test_the_orientation_is_carried_over_and_not_applied(form: str, value: int) -> None:
    image = picture()
    image = opened(encode(with_orientation(form, value, image), PLAIN))
    assert image.getexif().get(ORIENTATION) == (value if 2 <= value <= 8 else None)
    assert image.size == (40, 30)


@pytest.mark.parametrize("value", [3, 6])
def test_the_orientation_leaves_the_pixels_where_they_are(value: int) -> None:
    source = picture()
    got = opened(encode(with_orientation("PNG", value, source), PLAIN))
    assert far(got, source) < 4


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_upstream_drops_the_orientation(form: str) -> None:
    image = opened(encode(with_orientation(form, 6, picture()), UPSTREAM))
    assert ORIENTATION not in image.getexif()
    assert image.size == (40, 30)


@pytest.mark.parametrize("value", [1, 3, 6, 8])
def test_a_tiff_is_upright_and_is_not_turned_a_second_time(value: int) -> None:
    # Pillow turns it while it loads; a tag would make readers turn it again.
    data = with_orientation("TIFF", value, picture())
    got = opened(encode(data, PLAIN))
    assert ORIENTATION not in got.getexif()
    with Image.open(io.BytesIO(data)) as upright:
        upright.load()
        assert far(got, upright.convert("RGB")) < 4
    assert measure(data) == got.size


@pytest.mark.parametrize(
    "payload",
    [
        b"Exif\0\0",
        b"Exif\0\0MM",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + bytes(range(200)),
        # The orientation as text, and as a fraction by zero.
        b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\x02\0\0\x006\0\0\0" + bytes(4),
        b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x05\0\x01\0\0\0\x1a\0\0\0" + bytes(12),
    ],
)
def test_damaged_exif_says_nothing(payload: bytes) -> None:
    data = with_segment(jpeg(), payload)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as a pack does
        assert ORIENTATION not in opened(encode(data, PLAIN)).getexif()
        assert measure(data) == (32, 24)


def test_a_jpegs_comment_is_kept_up_to_the_longest() -> None:
    for comment in (b"by me", b"c" * 65_533):
        data = saved(picture(), "JPEG", comment=comment)
        for made in (PLAIN, UPSTREAM):
            assert opened(encode(data, made)).info["comment"] == comment


def test_what_other_formats_call_a_comment_is_no_reason_to_reject_them_or_to_hang() -> None:
    about = PngImagePlugin.PngInfo()
    about.add_itxt("comment", "ä" * 40_000)  # more bytes than letters: Pillow never ends
    png = saved(picture(), "PNG", pnginfo=about)
    gif = saved(picture("P"), "GIF", comment=b"c" * 70_000)
    for data in (png, gif):
        assert "comment" not in opened(encode(data, PLAIN)).info
        with pytest.raises(Unusable, match="too long"):
            encode(data, UPSTREAM)


def test_a_comment_behind_a_pngs_pixels_is_found_too() -> None:
    plain = saved(picture(), "PNG")
    text = b"tEXtcomment\0" + b"c" * 70_000
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    data = plain[:-12] + chunk + plain[-12:]
    assert "comment" not in opened(encode(data, PLAIN)).info


def test_profiles_are_left_out() -> None:
    data = saved(picture(), "JPEG", icc_profile=b"i" * 500, dpi=(300, 300), xmp=b"<x/>")
    for made in (PLAIN, UPSTREAM):
        assert {"icc_profile", "dpi", "xmp"}.isdisjoint(opened(encode(data, made)).info)


# Sizes, at every level.


@pytest.mark.parametrize("size", [(1, 1), (1, 2000), (2000, 1), (441, 640), (640, 441)])
@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("upstream", [False, True])
def test_an_image_has_the_size_that_the_recipe_says(
    size: tuple[int, int], level: Level, *, upstream: bool
) -> None:
    made = recipe(level, upstream=upstream)
    scaled = made.scaled(*size)
    box = made.window(*scaled) or (0, 0, *scaled)
    got = encode(saved(Image.new("RGB", size), "PNG"), made)
    assert opened(got).size == (box[2] - box[0], box[3] - box[1])


def test_the_middle_is_cut_out() -> None:
    bars = np.zeros((400, 800, 3), np.uint8)
    bars[:, 100:700] = 255
    got = np.asarray(opened(encode(saved(Image.fromarray(bars), "PNG"), recipe(2))))
    assert got.shape == (400, 600, 3)
    assert got.min() > 250


@pytest.mark.parametrize("upstream", [False, True])
def test_without_scaling_the_bytes_are_those_of_pillow(*, upstream: bool) -> None:
    data = jpeg(300, 200)
    with Image.open(io.BytesIO(data)) as image:
        expected = saved(image, "JPEG", quality=80)
    assert encode(data, recipe(3, upstream=upstream)).data == expected


def test_subsampling_and_quality_are_those_asked_for() -> None:
    data = saved(picture(), "PNG")
    factors = {"4:4:4": (1, 1), "4:2:2": (2, 1), "4:2:0": (2, 2), None: (2, 2)}
    for subsampling, wanted in factors.items():
        made = Encoding(level=1, subsampling=subsampling).recipe()
        assert made is not None
        stored = encode(data, made).data
        place = stored.index(b"\xff\xc0") + 2  # the frame header
        assert divmod(stored[place + 9], 16) == wanted
    sizes = []
    for quality in (1, 50, 100):
        made = Encoding(level=1, quality=quality).recipe()
        assert made is not None
        sizes.append(len(encode(jpeg(200, 200), made).data))
    assert sizes == sorted(set(sizes))


def test_an_image_too_long_for_a_jpeg_is_unusable() -> None:
    with pytest.raises(Unusable, match="cannot be decoded or encoded"):
        encode(saved(Image.new("L", (70_000, 1)), "PNG"), PLAIN)


# What is not usable.


@pytest.mark.parametrize("name", ["measure", "encode", "shrink", "histogram"])
def test_nothing_and_nonsense_say_why(name: str) -> None:
    functions: dict[str, Callable[[bytes], object]] = {
        "measure": measure,
        "encode": lambda data: encode(data, PLAIN),
        "shrink": lambda data: shrink(data, 1 << 20),
        "histogram": rgb_histogram,
    }
    with pytest.raises(Unusable, match="the file is empty"):
        functions[name](b"")
    for data in (b"no image at all", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", bytes(30_000)):
        with pytest.raises(Unusable, match="not an image that can be read"):
            functions[name](data)


@pytest.mark.parametrize("form", FORMATS)
def test_only_the_content_tells_what_a_file_is(form: str, tmp_path: Path) -> None:
    path = tmp_path / "image.any"
    path.write_bytes(saved(picture(), form))
    assert measure_stored(whole_file(str(path), path.stat())) == (40, 30)


def test_other_formats_are_not_opened_let_alone_run() -> None:
    for form in ("EPS", "PDF", "PPM", "ICO", "TGA"):
        with pytest.raises(Unusable, match="not an image that can be read"):
            measure(saved(picture(), form))


def test_a_jpeg_without_its_end_was_cut_short() -> None:
    data = jpeg(200, 200)
    for cut in (data[:-2], data[:-1], data[: len(data) // 2]):
        with pytest.raises(Unusable, match="end-of-image"):
            measure(cut)
    assert measure(data + bytes(100)) == (200, 200)
    assert measure(data + os.urandom(50)) == (200, 200)


def test_the_end_of_the_thumbnail_is_not_that_of_the_picture() -> None:
    data = with_segment(jpeg(300, 300), b"Exif\0\0II*\0\x08\0\0\0" + bytes(6) + jpeg(40, 40))
    assert measure(data) == (300, 300)
    with pytest.raises(Unusable, match="end-of-image"):
        measure(data[: len(data) // 2])


def test_of_two_pictures_in_one_file_the_first_is_taken_and_has_to_be_whole() -> None:
    data = saved(picture(), "MPO", save_all=True, append_images=[picture()])
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "MPO"
    first = data.index(b"\xff\xd9") + 2
    assert measure(data) == measure(data[:first]) == (40, 30)
    assert opened(encode(data, PLAIN)).size == (40, 30)
    with pytest.raises(Unusable, match="end-of-image"):
        measure(data[: first - 2])


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP"])
def test_an_image_that_ends_early_cannot_be_encoded(form: str) -> None:
    data = saved(Image.fromarray(RNG.integers(0, 256, (60, 60, 3), np.uint8)), form)
    cut = data[: len(data) // 2]
    for made in (PLAIN, UPSTREAM):
        with pytest.raises(Unusable):
            encode(cut, made)
    with pytest.raises(Unusable):
        rgb_histogram(cut)


def test_a_large_image_is_welcome_and_an_absurd_one_is_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # as a pack does
        assert measure(png_of_size(12_000, 10_000)) == (12_000, 10_000)
    for function in (measure, rgb_histogram, lambda data: encode(data, PLAIN)):
        with pytest.raises(Unusable, match="decompression bomb"):
            function(png_of_size(65_500, 65_500))


@pytest.mark.parametrize("size", [(0, 5), (5, 0)])
def test_an_image_without_pixels_is_none(size: tuple[int, int]) -> None:
    with pytest.raises(Unusable):
        measure(png_of_size(*size))


@pytest.mark.parametrize("transparency", [bytes(range(256)), 3])
def test_a_transparent_palette_warns_nobody(transparency: bytes | int) -> None:
    data = saved(picture("P"), "PNG", transparency=transparency)
    # Warnings are errors here.
    assert opened(encode(data, PLAIN)).mode == "RGB"
    assert opened(encode(data, UPSTREAM)).mode == "RGB"
    assert sum(rgb_histogram(data)) == 3 * 40 * 30


SAVED = [saved(picture("P" if form == "GIF" else "RGB"), form) for form in FORMATS]
DAMAGE = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=8)


@given(st.sampled_from(SAVED), DAMAGE, st.integers(0, 4000))
@settings(max_examples=200)
def test_whatever_is_damaged_the_verdict_is_unusable_and_nothing_else(
    data: bytes, damage: list[tuple[int, int]], end: int
) -> None:
    wrong = bytearray(data[: max(end, 1)])
    for place, value in damage:
        wrong[place % len(wrong)] = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function in (
            measure,
            rgb_histogram,
            lambda data: encode(data, PLAIN),
            lambda data: encode(data, UPSTREAM),
        ):
            with contextlib.suppress(Unusable):
                function(bytes(wrong))


# Measuring from parts of a file.

NOISE = Image.fromarray(RNG.integers(0, 256, (150, 200, 3), np.uint8))
LARGE = {
    "JPEG": saved(NOISE, "JPEG", quality=95),
    "progressive": saved(NOISE, "JPEG", quality=95, progressive=True),
    "header of 40 KB": with_segment(saved(NOISE, "JPEG"), b"Exif\0\0" + bytes(40_000)),
    "thumbnail": with_segment(
        saved(NOISE, "JPEG"), b"Exif\0\0II*\0\x08\0\0\0" + bytes(6) + jpeg(160, 120)
    ),
    "two of 60 KB": with_segment(
        with_segment(saved(NOISE, "JPEG"), bytes(60_000), b"\xff\xe2"), bytes(60_000), b"\xff\xe3"
    ),
    "trailing": saved(NOISE, "JPEG") + bytes(5_000),
    "MPO": saved(NOISE, "MPO", save_all=True, append_images=[NOISE]),
    "PNG": saved(NOISE, "PNG"),
    "WEBP": saved(NOISE, "WEBP", lossless=True),
    "TIFF": saved(NOISE, "TIFF"),
    "LZW": saved(NOISE, "TIFF", compression="tiff_lzw"),
    "BMP": saved(NOISE, "BMP"),
    "GIF": saved(NOISE.convert("P"), "GIF"),
}


def verdict(function: Callable[[], tuple[int, int]]) -> tuple[int, int] | str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except Unusable:
            return "unusable"


@pytest.mark.parametrize("name", LARGE)
def test_a_large_image_is_measured_from_its_ends(name: str, tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(LARGE[name])
    assert path.stat().st_size > 18_000
    assert verdict(lambda: measure_stored(whole_file(str(path), path.stat()))) == (200, 150)


def test_a_jpeg_without_a_scan_is_unusable_from_its_ends_too(tmp_path: Path) -> None:
    # Pillow looks for the scan up to the end of what it is given, and finds no fault.
    whole = saved(NOISE.convert("CMYK"), "JPEG", quality=95)
    scan = whole.index(b"\xff\xda")
    wrong = whole[:scan] + b"\0\0" + whole[scan + 2 :]
    path = tmp_path / "image"
    path.write_bytes(wrong)
    assert len(wrong) > 20_000
    with pytest.raises(Unusable):
        measure(wrong)
    with pytest.raises(Unusable):
        measure_stored(whole_file(str(path), path.stat()))


@given(st.sampled_from(sorted(LARGE)), st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_measuring_from_the_ends_gives_what_measuring_all_gives(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    whole = LARGE[name]
    cut = data.draw(st.integers(0, len(whole)))
    wrong = bytearray(whole[:cut])
    for place, value in data.draw(DAMAGE):
        if place < len(wrong):
            wrong[place] = value
    path = tmp_path / "image"
    path.write_bytes(wrong)
    stored = whole_file(str(path), path.stat())
    assert verdict(lambda: measure_stored(stored)) == verdict(lambda: measure(bytes(wrong)))


def test_of_a_large_jpeg_only_the_ends_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "image"
    path.write_bytes(LARGE["JPEG"])
    stored = whole_file(str(path), path.stat())
    monkeypatch.setattr(type(stored), "read", lambda _: pytest.fail("all of it was read"))
    assert measure_stored(stored) == (200, 150)


# Encoding again, and statistics.


@pytest.mark.parametrize("quality", [95, 85, 60, 50])
def test_shrinking_keeps_as_much_quality_as_fits(quality: int) -> None:
    data = saved(NOISE, "PNG")
    expected = encode(data, Recipe(boundary=1 << 16, crops=False, quality=quality))
    got = shrink(data, aligned(len(expected.data)))
    assert got == expected
    assert opened(got).size == NOISE.size


def test_what_cannot_shrink_enough_is_unusable() -> None:
    with pytest.raises(Unusable, match=r"block \(640 bytes\) even at quality 50"):
        shrink(saved(NOISE, "PNG"), 640)


def test_shrinking_carries_the_orientation_over() -> None:
    assert opened(shrink(with_orientation("JPEG", 6, NOISE), 64_000)).getexif()[ORIENTATION] == 6


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK", "P", "1", "RGBA", "LA"])
def test_the_histogram_is_that_of_the_pixels_as_rgb(mode: str) -> None:
    image = picture(mode)
    form = "TIFF" if mode == "CMYK" else "PNG"
    pixels = np.asarray(image.convert("RGB"))
    expected = [np.bincount(pixels[..., channel].ravel(), minlength=256) for channel in range(3)]
    assert rgb_histogram(saved(image, form)) == np.concatenate(expected).tolist()

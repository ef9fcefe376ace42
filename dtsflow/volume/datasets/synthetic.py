"""Made-up photographs, and a data set of them for a first run without any data.

`paint` makes one image of shading, soft objects, texture and grain. `write_photos`
makes a folder of images with the sizes and bytes of ImageNet's.
"""

import colorsys
import io
import json
import logging
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image
from pydantic import Field

from dtsflow.config.configurable import configurable
from dtsflow.errors import PackError, VolumeError
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.file import read_header
from dtsflow.volume.format.io import appearing
from dtsflow.volume.format.manifest import manifest_path
from dtsflow.volume.packing.options import Encoding, Level, Packing
from dtsflow.volume.packing.pack import pack

Floats = npt.NDArray[np.float32]
Plate = TypeVar("Plate", npt.NDArray[np.float32], npt.NDArray[np.int8])

PLATE_SIDE = 1024  # pixels; plates repeat seamlessly, so any crop of them may wrap
_COARSE = 2  # objects are painted at half size; enlarging them softens their edges
_OBJECTS = 6  # at most
_MIRRORED, _BOXES = 0.5, 0.3  # shares
_OTHER_HUE = 0.25  # share of surfaces with a hue that is not their class's


@dataclass(frozen=True, slots=True)
class Plates:
    """Textures made once and cropped for every image; all repeat seamlessly.

    `detail` are 1/f noise fields of different roughness, about -1 to 1, `grain` is
    sensor noise per colour, `relief` is smooth noise that bends outlines.
    """

    detail: tuple[Floats, ...]
    grain: npt.NDArray[np.int8]
    relief: Floats


@dataclass(frozen=True, slots=True)
class Look:
    """The hue and the roughness that images of one class share, both in 0..1."""

    hue: float
    roughness: float


def make_plates(rng: np.random.Generator) -> Plates:
    """Make the textures; the only slow step, about half a second."""
    exponents = (0.7, 0.85, 1.0, 1.15, 1.35, 1.6)
    # Squeezed, so that no texture turns into holes of black.
    detail = tuple(np.tanh(_noise(rng, power, longest=120) / 1.5) for power in exponents)
    grain = rng.standard_normal((PLATE_SIDE, PLATE_SIDE, 3), np.float32)
    # Sensors interpolate colour between pixels: neighbours share part of their noise.
    grain = 0.5 * grain + 0.3 * np.roll(grain, 1, 0) + 0.3 * np.roll(grain, 1, 1)
    shared = grain.mean(axis=2, keepdims=True)
    stored = np.clip(40 * (0.4 * grain + 1.2 * shared), -127, 127).astype(np.int8)
    return Plates(detail, stored, _noise(rng, 1.9, longest=160))


def paint(
    width: int, height: int, look: Look, plates: Plates, rng: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """Paint one image, (height, width, 3); `rng` decides what `look` leaves open."""
    coarse = _paint_coarse(-(-width // _COARSE), -(-height // _COARSE), look, plates, rng)
    enlarged = [
        Image.fromarray(layer).resize((width, height), Image.Resampling.BILINEAR)
        for layer in coarse
    ]
    colour, contrast = (np.asarray(layer, np.float32) for layer in enlarged)
    detail = _crop(_pick(plates.detail, look.roughness, rng), width, height, rng)
    # Texture scales the light that a surface reflects, so dark parts stay quiet.
    image = colour * (1 + contrast * detail * np.float32(1 / 255))[:, :, None]
    grain = np.float32(np.exp(rng.normal(np.log(0.32), 0.4)))
    image += grain * _crop(plates.grain, width, height, rng)
    np.clip(image, 0, 255, out=image)
    return image.astype(np.uint8)


def _paint_coarse(
    width: int, height: int, look: Look, plates: Plates, rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Paint colours (height, width, 3) and texture (height, width) at half size."""
    y = np.linspace(0, 1, height, dtype=np.float32)[:, None]
    x = np.linspace(0, 1, width, dtype=np.float32)[None, :]
    relief = _crop(plates.relief, width, height, rng)
    horizon = np.float32(rng.uniform(0.2, 0.75))
    ground = _step((y - horizon + 0.03 * relief) / np.float32(rng.uniform(0.01, 0.2)))
    far, near = _surface(look, rng), _surface(look, rng)
    colour = _shade(far, 1.15 - 0.4 * y * np.ones_like(x)) * (1 - ground)[:, :, None]
    colour += _shade(near, 0.6 + 0.5 * y * np.ones_like(x)) * ground[:, :, None]
    contrast = 24 + np.float32(rng.uniform(50, 120)) * ground
    light = rng.uniform(-1, 1, 2).astype(np.float32)
    for _ in range(int(rng.integers(1, _OBJECTS + 1))):
        _add_object((x, y), (colour, contrast), relief, light, _surface(look, rng), rng)
    colour *= (1 + np.float32(0.05) * relief)[:, :, None]
    return (
        np.clip(colour, 6, 250).astype(np.uint8),
        np.clip(contrast, 0, 255).astype(np.uint8),
    )


def _add_object(
    grid: tuple[Floats, Floats],
    canvas: tuple[Floats, Floats],
    relief: Floats,
    light: Floats,
    surface: Floats,
    rng: np.random.Generator,
) -> None:
    """Paint one rounded object into colour and contrast, lit from `light`."""
    (x, y), (colour, contrast) = grid, canvas
    centre_x, centre_y, angle = rng.uniform((0.1, 0.2, 0), (0.9, 0.9, np.pi)).astype(np.float32)
    radius_x, radius_y = np.exp(rng.uniform(np.log(0.06), np.log(0.4), 2)).astype(np.float32)
    cos, sin = np.cos(angle), np.sin(angle)
    u = (cos * (x - centre_x) + sin * (y - centre_y)) / radius_x
    v = (cos * (y - centre_y) - sin * (x - centre_x)) / radius_y
    boxed = rng.random() < _BOXES
    bend = np.float32(rng.uniform(0.0, 0.06) if boxed else rng.uniform(0.05, 0.35))
    distance = np.maximum(u * u, v * v) if boxed else u * u + v * v
    inside = 1 - distance + bend * relief
    mask = _step(inside / np.float32(rng.uniform(0.03, 0.15)))
    shadow = _step((inside + 0.5) / np.float32(1.2)) * (1 - mask)
    colour *= (1 - np.float32(0.35) * shadow)[:, :, None]
    lit = 0.7 + 0.3 * np.clip(inside, 0, 1) + 0.25 * (light[0] * u + light[1] * v)
    colour += mask[:, :, None] * (_shade(surface, np.clip(lit, 0.25, 1.4)) - colour)
    contrast += mask * (np.float32(rng.uniform(25, 150)) - contrast)


def _surface(look: Look, rng: np.random.Generator) -> Floats:
    """Draw a colour near the class's hue, as dull as most things are."""
    hue = (look.hue + rng.normal(0, 0.06)) % 1
    if rng.random() < _OTHER_HUE:
        hue = rng.beta(2, 2)  # earth, leaves and sky more often than magenta
    # Bright violet is rare outdoors, so what is far from yellow is duller.
    saturation = rng.beta(1.3, 4) * (0.7 + 0.3 * np.cos(2 * np.pi * (hue - 0.15)))
    value = rng.uniform(0.2, 0.9)
    return np.array(colorsys.hsv_to_rgb(hue, saturation, value), np.float32) * 255


def _shade(surface: Floats, light: Floats) -> Floats:
    shaded: Floats = surface * light[:, :, None]
    return shaded


def _step(x: npt.NDArray[np.floating]) -> Floats:
    """Rise from 0 to 1 with soft ends, over x from -0.5 to 0.5."""
    t = np.clip(x + np.float32(0.5), 0, 1)
    smooth: Floats = (t * t * (3 - 2 * t)).astype(np.float32, copy=False)
    return smooth


def _pick(plates: tuple[Floats, ...], roughness: float, rng: np.random.Generator) -> Floats:
    place = (1 - roughness) * (len(plates) - 1) + rng.normal(0, 1)
    return plates[int(np.clip(round(place), 0, len(plates) - 1))]


def _crop(plate: Plate, width: int, height: int, rng: np.random.Generator) -> Plate:
    """Cut a random part of a plate, mirrored half the time; repeat a small plate."""
    top = int(rng.integers(max(1, PLATE_SIDE - height + 1)))
    left = int(rng.integers(max(1, PLATE_SIDE - width + 1)))
    part = plate[top : top + height, left : left + width]
    if part.shape[:2] != (height, width):
        rows, columns = np.arange(height) % PLATE_SIDE, np.arange(width) % PLATE_SIDE
        part = plate.take(rows, axis=0).take(columns, axis=1)
    return part[:, ::-1] if rng.random() < _MIRRORED else part


def _noise(rng: np.random.Generator, exponent: float, *, longest: int) -> Floats:
    """Make noise, 1/f**exponent from waves of `longest` pixels on, deviation 1."""
    rows = np.fft.fftfreq(PLATE_SIDE)[:, None]
    columns = np.fft.rfftfreq(PLATE_SIDE)[None, :]
    # Waves longer than a crop would only make it all bright or all dark.
    frequency = np.maximum(np.hypot(rows, columns), 1 / longest)
    white = np.fft.rfft2(rng.standard_normal((PLATE_SIDE, PLATE_SIDE)))
    white *= frequency**-exponent
    white[0, 0] = 0
    field = np.fft.irfft2(white, s=(PLATE_SIDE, PLATE_SIDE))
    scaled: Floats = (field / field.std()).astype(np.float32)
    return scaled


# Shares of the sizes that half of ImageNet has; the rest follow a lognormal law.
_COMMON_SIZES = {
    (500, 375): 0.46,
    (375, 500): 0.13,
    (500, 333): 0.13,
    (333, 500): 0.05,
    (500, 334): 0.02,
}
_SMALLEST, _LARGEST = 75, 2500  # pixels a side
_GRAY = 0.02
_GOLDEN = 0.618034  # multiples of it, modulo 1, keep any number of hues apart


def write_photos(
    folder: Path,
    *,
    images: int,
    classes: int,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Make `folder` with one class folder per class and JPEG images in them.

    Image i has class i mod `classes`. The same arguments give the same images, whatever
    the number of processors. The folder appears under its name when it is complete.
    `progress` gets the number of images done and of all images.

    Raises:
        PackError: `folder` exists or cannot be written, or a number is out of range.
    """
    if images < 1 or classes < 1 or seed < 0:
        raise PackError(
            f"{images} images of {classes} classes with seed {seed} cannot be made: images "
            "and classes start at 1, the seed at 0."
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    plates = make_plates(rng)
    with appearing(folder) as unfinished:
        for label in range(classes):
            (unfinished / _class_name(label)).mkdir()

        def write(number: int) -> None:
            label = number % classes
            name = f"{_class_name(label)}_{number:06d}.JPEG"
            data = _photo(plates, label, np.random.default_rng((seed, number)))
            (unfinished / _class_name(label) / name).write_bytes(data)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for done, _ in enumerate(pool.map(write, range(images)), 1):
                if progress is not None:
                    progress(done, images)


def _photo(plates: Plates, label: int, rng: np.random.Generator) -> bytes:
    width, height = _draw_size(rng)
    look = Look(hue=label * _GOLDEN % 1, roughness=(label * 7 % 10) / 9)
    image = Image.fromarray(paint(width, height, look, plates, rng))
    if rng.random() < _GRAY:
        image = image.convert("L")
    stored = io.BytesIO()
    quality = int(np.clip(round(rng.normal(94, 2)), 88, 96))
    image.save(stored, "JPEG", quality=quality, subsampling="4:2:0")
    return stored.getvalue()


def _draw_size(rng: np.random.Generator) -> tuple[int, int]:
    left = rng.random()
    for size, share in _COMMON_SIZES.items():
        left -= share
        if left < 0:
            return size
    side = np.exp(rng.normal(np.log(360), 0.6))
    ratio = np.exp(rng.normal(0.1, 0.15))  # the square root of width by height
    width, height = (int(np.clip(s, _SMALLEST, _LARGEST)) for s in (side * ratio, side / ratio))
    return width, height


def _class_name(label: int) -> str:
    return f"class_{label:04d}"


log = logging.getLogger(__name__)

_RECIPE = 2  # counts up when the same parameters give other images


@configurable
class Synthetic:
    """`images` made-up photographs of `classes` classes, one volume in folder `path`.

    They are packed at `level`; each level has a volume of its own. The same parameters
    give the same images. Beside the volume lies a small JSON file with its parameters:
    `prepare` makes the volume again only when they change.
    """

    path: Annotated[str, Field(min_length=1)]
    images: Annotated[int, Field(ge=1)] = 512
    classes: Annotated[int, Field(ge=1)] = 10
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    level: Level = 0

    @property
    def volume(self) -> Path:
        """Return the volume that `prepare` makes, as `quickstart_train_lv0.dts`."""
        folder = Path(self.path).expanduser()
        return folder / f"{_name(folder)}_train_lv{self.level}.dts"

    def prepare(self) -> None:
        """Make the volume, unless one with the same parameters is there.

        Raises:
            PackError: It cannot be written, or a file that is not ours has its name.
        """
        if self._is_made():
            return
        volume = self.volume
        if volume.exists() and not self._record.exists():
            raise PackError(
                f"{volume} exists and was not made by Synthetic ({self._record.name} is not "
                "beside it). Move it away, or choose another folder as volume.path."
            )
        log.info("making %d photographs of %d classes: %s", self.images, self.classes, volume)
        volume.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{volume.stem}.", dir=volume.parent) as room:
            self._make(Path(room))
        log.info("made %s: %d bytes", volume, volume.stat().st_size)

    def scan(self, cache: Path | None = None) -> VolumeSet:
        """Read headers and block indexes; nothing stays open.

        `cache` is a folder for what a scan finds out; see `volume.datasets.scan`.

        Raises:
            VolumeError: `prepare` has not run, or the volume is damaged.
        """
        return scan(self.volume, cache)

    @property
    def _record(self) -> Path:
        return self.volume.with_suffix(".json")

    @property
    def _parameters(self) -> dict[str, int]:
        return {
            "images": self.images,
            "classes": self.classes,
            "seed": self.seed,
            "level": self.level,
            "recipe": _RECIPE,
        }

    def _is_made(self) -> bool:
        try:
            recorded = json.loads(self._record.read_text(encoding="utf-8"))
            crc = read_header(self.volume).crc_code
        except (OSError, ValueError, VolumeError):
            return False
        return bool(recorded == {**self._parameters, "crc": crc})

    def _make(self, room: Path) -> None:
        photos = room / "photos"
        write_photos(photos, images=self.images, classes=self.classes, seed=self.seed)
        encoding = Encoding(level=self.level)
        packing = Packing(split="train", name=_name(self.volume.parent), encoding=encoding)
        packed = pack(photos, room, packing)
        record = {**self._parameters, "crc": read_header(packed.path).crc_code}
        written = room / self._record.name
        written.write_text(json.dumps(record) + "\n", encoding="utf-8")
        # The record first: a volume without one would not be known as ours.
        written.replace(self._record)
        manifest_path(packed.path).replace(manifest_path(self.volume))
        packed.path.replace(self.volume)


def _name(folder: Path) -> str:
    return folder.resolve().name.lower().removesuffix("-data") or "synthetic"

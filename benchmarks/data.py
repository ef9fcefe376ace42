"""The inputs of the benchmarks, made once in `data/` and the same for every side."""

import io
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import HERE, PEERS
from PIL import Image

import dtsflow
from dtsflow.testing import write_small_set
from dtsflow.volume import Encoding, Packing, pack, write_photos
from dtsflow.volume.format.header import Kind

DATA = HERE / "data"
CLASSES = 10
JPEG_LIBS = ("-ljpeg", "-lpthread")


def photos(images: int) -> tuple[Path, Path]:
    """A folder of class folders of photo-like JPEGs, and its volume: the same bytes."""
    folder, volume = DATA / f"photos-{images}", DATA / f"photos-{images}_train_lv0.dts"
    if not folder.exists():
        print(f"making {images:,} images: {folder}", flush=True)
        write_photos(folder, images=images, classes=CLASSES, seed=0)
    if not volume.exists():
        pack(folder, DATA, Packing(split="train", name=folder.name))
    return folder, volume


def restarts(folder: Path) -> Path:
    """A volume of a folder of JPEGs, packed with restart markers: the same pixels."""
    name = f"{folder.name}-restarts"
    volume = DATA / f"{name}_train_lv0.dts"
    if not volume.exists():
        print(f"writing {volume}", flush=True)
        encoding = Encoding(restarts=True)
        pack(folder, DATA, Packing(split="train", name=name, encoding=encoding))
    return volume


def cifar(images: int) -> tuple[Path, Path]:
    """A folder with images.npy and labels.npy, noise, and the CIFAR10 file of both."""
    return _pixel_set(DATA / f"cifar-{images}", "cifar10_train.dts", Kind.CIFAR10, images)


def mnist(images: int) -> tuple[Path, Path]:
    """As `cifar`, of 28 x 28 gray images, and the MNIST file of both."""
    return _pixel_set(DATA / f"mnist-{images}", "mnist_train.dts", Kind.MNIST, images)


def _pixel_set(folder: Path, name: str, kind: Kind, images: int) -> tuple[Path, Path]:
    volume = folder / name
    if not volume.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_small_set(volume, kind, images)
        with dtsflow.volume.open(volume) as opened:
            block = opened.block(0)
            pixels = np.array(block.samples)
            shape = (-1, 28, 28) if kind is Kind.MNIST else (-1, 32, 32, 3)
            np.save(folder / "images.npy", pixels.reshape(shape))
            np.save(folder / "labels.npy", block.labels)
    return folder, volume


def beton(source: Path) -> Path:
    """FFCV's own file of `source`; where it cannot be written, its side fails."""
    target = source.with_suffix(".beton")
    if not target.exists() and (PEERS / "bin" / "python").exists():
        print(f"writing {target}", flush=True)
        script = HERE / "sides" / "ffcv_write.py"
        words = [PEERS / "bin" / "python", script, source, target]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode:
            print(f"it was not written: {done.stderr.strip().splitlines()[-1:]}", flush=True)
    return target


def region_decode() -> Path:
    """The compiled `region_decode.c`, with libjpeg-turbo wherever cc finds it."""
    source, target = HERE / "region_decode.c", DATA / "region_decode"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        DATA.mkdir(exist_ok=True)
        compiler = os.environ.get("CC", "cc")
        flags = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror")
        subprocess.run([compiler, *flags, source, "-o", target, *JPEG_LIBS], check=True)
    return target


def windows(config: dict[str, Any], passes: int) -> Path:
    """What region_decode reads: all JPEGs with the windows that dtsflow draws for them.

    `config` is that of dtsflow's side, so seed, epochs and windows are the same.
    """
    target = DATA / "windows.bin"
    with dtsflow.open(config) as run:
        plan = run.plan
        with dtsflow.volume.open(config["volume"]["path"]) as volume:
            stored = [bytes(sample.data) for sample in volume]
        sizes = np.array([Image.open(io.BytesIO(data)).size[::-1] for data in stored])
        program = plan.pipeline.phases["train"].po.program(plan.phases["train"].volumes.image)
        drawn = [
            program.draw(
                seed=plan.phases["train"].order.seed,
                ids=np.arange(len(stored)),
                epoch=epoch,
                phase=plan.phases["train"].order.phase,
                sizes=sizes,
            )[0]
            for epoch in range(passes)
        ]
    _write(target, stored, drawn)
    return target


def _write(target: Path, stored: Sequence[bytes], drawn: Sequence[np.ndarray]) -> None:
    lengths = np.array([len(data) for data in stored], np.uint64)
    places = np.stack([np.cumsum(lengths) - lengths, lengths], axis=1)
    with target.open("wb") as file:
        file.write(np.array([len(stored), len(drawn)], np.uint64).tobytes())
        file.write(places.tobytes())
        for rows in drawn:
            file.write(rows.tobytes())
        file.writelines(stored)

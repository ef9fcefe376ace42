"""What no later version may change: digests, fingerprints, states, bytes of volumes.

All inputs are made of fixed bytes, so a digest here differs on no machine. What these
tests import is what users import, so that they outlive any move within the package. A
test that fails here says that runs and data of our users would no longer be theirs:
mend the code, not the number.
"""

import hashlib
import json
import struct
import sys
import zlib
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtsflow
from dtsflow.cli.main import main
from dtsflow.cli.run import stream
from dtsflow.testing import damage, write_block_volume

Tree = dict[str, Any]

# 40 x 30 with halved colours, 25 x 33 with all of them, and grey, 28 x 36.
JPEGS = tuple(
    b64decode(text)
    for text in (
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwz"
        "Oko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09P"
        "T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAAeACgDASIAAhEBAxEB/8QA"
        "GQAAAgMBAAAAAAAAAAAAAAAAAAUCAwQG/8QAIRAAAgICAgIDAQAAAAAAAAAAAAECAwQRITEFEhMUQVH/"
        "xAAYAQEAAwEAAAAAAAAAAAAAAAAEAwUGAf/EACERAAEEAgICAwAAAAAAAAAAAAIAAQMEERIFEyExIyRB"
        "/9oADAMBAAIRAxEAPwDtFYv6RtluLFEMxt9m6u33gZit9QtiUluF5hwy5/zXDYhri5WD7zUW29CzAocr"
        "OUa+uO8PejwcKcXyv6VsKpa6AfUYUXBbQBC5+MH1T2vCHhYq+xnjT40K4dm/GfRyekBt5SZG1bLK67C+"
        "x+FMfHLHe9DzDinHkjnRXxvggOwUUfS3pCmvSMGn4lSv9FoDHe9SYFGVYSfKpCfL5X//2Q==",
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwz"
        "Oko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09P"
        "T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAAhABkDAREAAhEBAxEB/8QA"
        "GQABAAMBAQAAAAAAAAAAAAAABQMEBgEC/8QAIxAAAgIABQQDAAAAAAAAAAAAAAECAwQFERNRBhIVIRQ0"
        "Qf/EABgBAQEBAQEAAAAAAAAAAAAAAAYFBAMA/8QAJxEAAQMCBQQCAwAAAAAAAAAAAAECBAMRBRITFCEV"
        "IiMxM1EGMkH/2gAMAwEAAhEDEQA/AIJxcVqzJJ7miKnVS55rfdJGSK3KvJQpuuhoMvklTo2YJ7Fc+6Ar"
        "Gl8hY748onaLiFmB81o2aHIVx/M6xbjzlVwNltm7a0zpNo7dLimJWzNFbMU6PSZ6JD3CXUK42vkIvJPk"
        "39HT6D11FM2SuocUT8PbleW2w1pcmbw1bwtrbK+IUddvBcgVv4Xth4r2jhEqJFSymHEqOo653xkuDb1N"
        "pI2SikXuLRkeilnC+dSRKd0Bs5iqtGhHEbnTkjQndwr07BWUpsL405aT7IU3sRw98eHAf3Lvs5aTQSgT"
        "s9lGf8ShOf8A4JMP9B2F+4t0x9dBL8h+RSyvo0QWOZ//2Q==",
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwz"
        "Oko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//wAALCAAkABwBAREA/8QAGQABAAMBAQAAAAAAAAAA"
        "AAAABgMEBQEC/8QAJxAAAQMDAwEJAAAAAAAAAAAAAQACBAMFIRESEzIVIjEzNFJhcYH/2gAIAQEAAD8A"
        "YSngMOUYuTwSVLYagbV/Un3tOdUelXAbDlH5Mve45XuDM4Xa6rU7aHuR+pN5MAqDa4nVQyKhpjxVIzXa"
        "9S5Brl9UAlIm0hwg/Cxrp3QsJ1TKu2/z2pe304+lgXjoRx3UV//Z",
    )
)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pattern(seed: int, *shape: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Pixels from whole numbers alone: steep in places, flat in others."""
    places = np.indices(shape, np.int64)
    weights = np.arange(1, len(shape) + 1).reshape(-1, *(1 for _ in shape)) * (7 + 2 * seed)
    ramps = (places * weights).sum(0)
    pixels: np.ndarray[Any, np.dtype[np.uint8]] = (
        (ramps + (ramps * places[0] >> 3) + 41 * seed) % 256
    ).astype(np.uint8)
    return pixels


def png(seed: int, width: int, height: int) -> bytes:
    """A PNG that is not compressed, so that no library has a part in its bytes."""
    lines = b"".join(b"\0" + line.tobytes() for line in pattern(seed, height, width, 3))
    size = len(lines)
    assert size < 1 << 16
    stored = b"\x78\x01\x01" + struct.pack("<HH", size, size ^ 0xFFFF) + lines
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0),
        b"IDAT": stored + struct.pack(">I", zlib.adler32(lines)),
        b"IEND": b"",
    }
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts.items()
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def image(number: int) -> bytes:
    """Every other one is a JPEG, so that both ways to decode have work."""
    if number % 2:
        return JPEGS[number // 2 % 3]
    return png(number, 20 + number % 7, 26 - number % 5)


def write_photos(folder: Path) -> None:
    for number in range(13):
        own = folder / f"class{number % 3}"
        own.mkdir(parents=True, exist_ok=True)
        suffix = "jpeg" if number % 2 else "png"
        (own / f"{number:02d}.{suffix}").write_bytes(image(number))


def write_digits(folder: Path) -> None:
    folder.mkdir()
    for name, seed, samples in (("train", 1, 40), ("t10k", 2, 13)):
        labels = bytes((3 * number + seed) % 10 for number in range(samples))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 2049, samples) + labels
        )
        (folder / f"{name}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 2051, samples, 28, 28) + pattern(seed, samples, 28, 28).tobytes()
        )


def write_colours(folder: Path, *, coarse: bool) -> None:
    """The binary version of CIFAR-10, or, with coarse labels, of CIFAR-100."""
    folder.mkdir()
    batches = (
        ("train", "test") if coarse else [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    )
    for seed, name in enumerate(batches):
        pixels = pattern(seed, 7, 3072)
        marks = [bytes([number % 20] * coarse + [(seed + number) % 10]) for number in range(7)]
        records = (mark + row.tobytes() for mark, row in zip(marks, pixels, strict=True))
        (folder / f"{name}.bin").write_bytes(b"".join(records))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the runs below read."""
    folder = tmp_path_factory.mktemp("frozen")
    write_photos(folder / "photos")
    write_digits(folder / "digits")
    write_colours(folder / "cifar10", coarse=False)
    write_colours(folder / "cifar100", coarse=True)
    (folder / "lines").mkdir()
    for part in range(2):
        lines = "".join(f"{number} {number * number}\n" for number in range(9 * part, 9 * part + 9))
        (folder / "lines" / f"part-{part}").write_text(lines)
    assert main(["pack", str(folder / "photos"), str(folder), "--split", "train", "--quiet"]) == 0
    for name in ("digits", "cifar10", "cifar100"):
        for split in ("train", "test"):
            assert main(["pack", str(folder / name), str(folder), "--split", split, "--quiet"]) == 0
    images = [(image(number), number % 4) for number in range(18)]
    write_block_volume(folder / "tiny_train_lv0.dts", [images[:7], images[7:12], images[12:]])
    write_block_volume(folder / "tiny_val_lv0.dts", [images[11:16]], is_training=False)
    bad = write_block_volume(folder / "bad.dts", [images[:7], images[7:]])
    damage(bad, bad.read_bytes().index(images[4][0]), b"no image")
    return folder


def text(value: object) -> str:
    """A value as an override has it."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {text(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def op(name: str, **values: Any) -> Tree:
    return {"_target_": f"dtsflow.po.{name}", **values}


def chain(*operations: Tree) -> str:
    return f"po.operations={text(list(operations))}"


CROP, FLIP = op("RandomResizedCrop", size=16), op("RandomHorizontalFlip")
FP16 = op("Normalize", preset="imagenet", dtype="FP16")
BASE = ("seed=11", "epochs=2", "batch_size=4", "lanes=2", "workers=2", "station.timeout_s=20")
TINY, SMALL = "volume.path=data/tiny_train_lv0.dts", "reader.window_bytes=1"

# How a run is configured, beside BASE.
RUNS: dict[str, tuple[str, ...]] = {
    "photos": ("+experiment=imagenet_train", TINY, SMALL, "po.operations.0.size=16"),
    "phases": (
        "+experiment=cifar10",
        "volume.path=data/cifar10_train.dts",
        "phases.val.volume.path=data/cifar10_test.dts",
    ),
    "public files": (
        "volume=raw", "volume.path=data/digits", "po=mnist_augmented", "reader.shuffle=full",
    ),
    "folder": ("volume=raw", "volume.path=data/photos", chain(op("Resize", size=18), CROP, FP16)),
    "order of a volume": (
        "volume=raw", "volume.path=data/photos", "reader.order_from=data/photos_train_lv0.dts",
        chain(CROP),
    ),
    "weights": (
        "reader.mix={}",
        "+reader.mix.many={volume: {path: data/tiny_train_lv0.dts}, weight: 0.75}",
        "+reader.mix.few={volume: {path: data/tiny_val_lv0.dts}, weight: 0.25}",
        "reader.mix_samples=26", SMALL, chain(CROP, FP16),
    ),
    "views": (
        TINY, chain(CROP, FP16), f"+po.views.second={text([CROP, FLIP, FP16])}",
        f"+po.views.small={text([op('Resize', size=9, fit='square')])}",
        f"+po.batch={text([op('Mixup', alpha=0.4), op('CutMix')])}",
    ),
    "records": ("volume=numbers", "decode=numbers", "po=numbers", "reader.shuffle=windows"),
    "augmentations": (
        TINY,
        chain(
            op("RandomScale", min_ratio=0.8, max_ratio=1.2),
            op("Pad", padding=3, padding_mode="reflect"),
            op("RandomRotation", degrees=25, interpolation="bilinear"),
            op("RandomAffine", degrees=10, translate=[0.1, 0.1], shear=[-5, 5]),
            op("RandomCrop", size=18, padding=2),
            op("RandomVerticalFlip"),
            op("ColorJitter", brightness=0.2, contrast=0.2, saturation=0.2, hue=0.1),
            op("RandomGrayscale", p=0.3),
            op("RandomAutocontrast"),
            op("RandAugment"),
            op("TrivialAugmentWide"),
            op("GaussianBlur", kernel_size=3),
            op("GaussianNoise", sigma=4.0),
            op("FastRandomResizedCrop", size=14),
            op("DoNothing"),
            FP16,
            op("RandomErasing"),
        ),
    ),
    "rows kept": (
        "epochs=4", TINY, SMALL, chain(CROP, FLIP, FP16), "decode.sdmp_factor=2",
        "+phases.train={}",
        "+phases.val={volume: {path: data/tiny_val_lv0.dts}, decode: {cpvs: true}}",
        "+phases.val.po.operations=" + text([op("Resize", size=20), op("CenterCrop", size=16)]),
    ),
    "schedule": (
        "epochs=3", TINY, "tail=wrap", "decode.scaled=true", "reader.subset.fraction=0.5",
        chain({**CROP, "size": op("Schedule", points=[[0, 8], [2, 16]], linear=True, multiple=4)}),
    ),
    "replaced": ("volume.path=data/bad.dts", "decode.on_error=replace", chain(CROP, FP16)),
    "masked": ("volume.path=data/bad.dts", "decode.on_error=mask", chain(CROP, FP16)),
    **{
        f"shuffle {how}": (
            TINY, SMALL, "tail=drop", chain(op("CenterCrop", size=8)), f"reader.shuffle={how}",
        )
        for how in ("none", "windows", "blocks", "full")
    },
}  # fmt: skip

# Of each run the digests in its report: `samples` and `sequence`.
DIGESTS: dict[str, tuple[str, str]] = {
    "photos": (
        "5dd84d11a228c3bd023f53e4e921f9e0b07c9914c34b1c7b70ceb2abe012c81e",
        "80eb8a258526cdb0abb91d19f21d5dd1900d14f539f30c1d7f5085485ac2e489",
    ),
    "phases": (
        "40fea4442526d8e2cc1c4bd3356051970696b47bc89b0d666e86a812ce5c913a",
        "6711cb670456c6b7409f74427989d405676c254ce72d34f9c3d995af7d0fe48a",
    ),
    "public files": (
        "a85885fa644cc40b2702627ae3e5ba3e6f9e1b055fdb78b11eb347661aac1247",
        "67779f857957e0a5713d6999fca621b1a252b85a11b4ef9b03b0723be0dfd373",
    ),
    "folder": (
        "4914207d4d7f7804074e606370de42a30316c569bf7aea3361f38112417ccc8e",
        "1dd1b7a58351b9aae1e6960eacdcb8ab8151f00f6e25001fc1580ad82c93b6ec",
    ),
    "order of a volume": (
        "067b8f5b4427874935be0740b3b2c3acf56b31747c7a4cddd9a6d629c2230e6e",
        "ac686a2fd58ad38f5e89da29a6e61c9b5a2cd703961c7760c877b8714ace500f",
    ),
    "weights": (
        "2fc169b3677f0f9d46c80cf32fd007bc1150df8275ee1dbe5e5174e20f9c77f2",
        "103e3dc47e3a9472c26141d1233eb2dc5584abf26a3874508d030ddd5b980b1f",
    ),
    "views": (
        "2fe5b55c3937ab78da6659a88c3dd88db2cbc896756bbc3a94164ecc80f05ebd",
        "fbb250dbe4288cb35934ca5b8db700b29b002bc2c73f0e9fc0c06de03829e0f3",
    ),
    "records": (
        "8e88f0ac188920d21375e7a3504ec4adc7a749b502594f162874ccee75f860aa",
        "7bdb3eecbbb1c430f0ba844193e2776ce6093be545625caf522c0e1c8e2e97e9",
    ),
    "augmentations": (
        "245adffcee3904566291d2ff0d642a896f7c5fd06da07159c9c007751b9567ca",
        "67714e599fa860e6419e53bebc3d375ae5137694c1190af39fa9af7798e9bcfc",
    ),
    "rows kept": (
        "0186ec3e2ced05519d6211fae67c66212207532ac6d332b06c72ddb063aba0ae",
        "6be43cc65cdaf36241470f11389bc4e9bc95e2c40961894a36843c58f5e014c7",
    ),
    "schedule": (
        "e2dca861c90444b6edc3b4aea37a07622d8b44dc6834ab2ff037bffc245ad5d7",
        "20327c808e7bacf64bd33df4b3bfee230dba940953188fa9ed583cb8178bb3e6",
    ),
    "replaced": (
        "25ab502f3eda656e8ca9a143969552b33a2fdef05752b47d75d1cafc7379cecb",
        "621074e82977edbe5013f879d317418e92f63d69ce3d50c2304138dbe70541ba",
    ),
    "masked": (
        "a3b28bdb15d44ddbaaffecca19911a98c3f2ecc2d768e025b91eb190afb52666",
        "74ec669a0ed4984f712d37ff61159e760dfeb714ab25e0c971f226e57819d0a1",
    ),
    "shuffle none": (
        "71e733710b46cbc85dceee6d99cafc4fe42763ab0bdf3799bc9aa21196dd229e",
        "aa9a566824c21060557401b2cb2d6077feec2f421dbe5dc3abf961c335e1d147",
    ),
    "shuffle windows": (
        "6cbcb656789ad08a8b860083e2e23a6aaaa4005739d5b45cec0018ea28e5c90e",
        "c16fc18cfacef48e7ca7c652fa22e589ec9ef68f15de905a063b230286d3ad13",
    ),
    "shuffle blocks": (
        "82f1cfa36b0473b15e8c4e53d03fa66fcc011b366610b92fe55f6a67d9687a73",
        "0e467e10e3db9499afef1244792019e68fed961672456dec132766a19f792ffd",
    ),
    "shuffle full": (
        "35b82500e8028d55924bc113b0b70f2e662de67cccb68db35a03fa51824fcb80",
        "f4224e3be5462dd3b25a837b7cc6290675c747abdb1613c8c1ad4a208546f77f",
    ),
}

# SHA-256 over all batches of `views`.
BATCHES = "89d2fec1fba49f947bf17ece42ff8d51d87df270ee04970d69f702e7c02d8442"

# After two batches of the second epoch of `photos`; and what is left from there.
STATE = (
    "{\n"
    '  "phase": "train",\n'
    '  "epoch": 1,\n'
    '  "step": 2,\n'
    '  "fingerprint": {\n'
    '    "seed": "4fc82b26aecb47d2",\n'
    '    "data": "040d9e202da8e0bc",\n'
    '    "batch_size": "11b3752515cbbfc5",\n'
    '    "lanes": "97e243c0b1ff2aae",\n'
    '    "window_bytes": "a15833a1d2d00da7",\n'
    '    "shuffle": "f1f63a5d2ddb8747",\n'
    '    "tail": "c93302af06f5304e",\n'
    '    "decode": "0363faf8ff48deb6",\n'
    '    "po": "ceedb940823002f0",\n'
    '    "algorithm": "6b86b273ff34fce1"\n'
    "  }\n"
    "}\n"
)
REST = "45ba4c47c7dd465ec9712c3ad2f55ca14e79bb99b441e6d0da8ed8053fe85834"

BOTH = (TINY, "phases.val.volume.path=data/tiny_val_lv0.dts", "batch_size=4")
SETS = {
    kind: (
        f"volume.path=data/{kind}_train.dts",
        f"phases.val.volume.path=data/{kind}_test.dts",
        "batch_size=4",
    )
    for kind in ("mnist", "cifar10", "cifar100")
}
EXPERIMENTS: dict[str, tuple[str, ...]] = {
    "cifar10": ("+experiment=cifar10", *SETS["cifar10"]),
    "cifar100": ("+experiment=cifar100", *SETS["cifar100"]),
    "image_folder": ("+experiment=image_folder", TINY),
    "imagenet": ("+experiment=imagenet", *BOTH),
    "imagenet_train": ("+experiment=imagenet_train", TINY, "tail=pad"),
    "imagenet_val": ("+experiment=imagenet_val", TINY),
    "mnist": ("+experiment=mnist", *SETS["mnist"]),
    "mnist_train": ("+experiment=mnist_train", *SETS["mnist"]),
    "quickstart": ("+experiment=quickstart", "volume.path=data/made", "volume.images=6"),
    "speed": ("+experiment=speed", "volume.path=data/made", "volume.images=6"),
}
MADE = {"quickstart", "speed"}  # their data are photos that are made on the way

# By experiment or run, the items of its states: names, and digests of what they say.
FINGERPRINTS = Path(__file__).with_name("frozen_fingerprints.json")

# By experiment, the digest of its plan of the device's memory.
MEMORY = {
    "cifar10": "37b13e24f61783926c6004e8dfa55b822d4d2a91d8b166875d3baac453fb5601",
    "cifar100": "37b13e24f61783926c6004e8dfa55b822d4d2a91d8b166875d3baac453fb5601",
    "image_folder": "ddac336c43be5912c916bf35d928957623eb57ea64138fbffbb9f8388cdb511a",
    "imagenet": "72c47832408ce6fba280635d6835090bc58c87bff0701814dd44214f6478089d",
    "imagenet_train": "ddac336c43be5912c916bf35d928957623eb57ea64138fbffbb9f8388cdb511a",
    "imagenet_val": "ddac336c43be5912c916bf35d928957623eb57ea64138fbffbb9f8388cdb511a",
    "mnist": "d2a74215c9c8295b4e654f05a497beec8a447915b40d76e5980582afc8cd1989",
    "mnist_train": "aaf43237da9d8a616712d8d90f765b18a918cd3240f1bc285231000dbad92c43",
    "quickstart": "0cf06cdd721b669a8c08f8953dac3d311696c12c22bb636bdeb620d5c9f31fa3",
    "speed": "0cf06cdd721b669a8c08f8953dac3d311696c12c22bb636bdeb620d5c9f31fa3",
}

REPORT_KEYS = [
    "images",
    "images_per_s",
    "steps",
    "bad_samples",
    "steps_per_epoch",
    "epochs",
    "first_batch_s",
    "peak_rss_bytes",
    "rss_before_bytes",
    "plan_bytes",
    "plan_digest",
    "workers",
    "stages.read",
    "stages.decode",
    "stages.po",
    "stages.native",
    "stages.wait",
    "phases.val.images",
    "phases.val.bad_samples",
    "phases.val.steps",
    "phases.val.steps_per_epoch",
    "phases.val.wait_s",
    "phases.val.split",
    "phases.val.reader.mode",
    "phases.val.reader.reason",
    "phases.val.reader.io_retries",
    "phases.train.images",
    "phases.train.bad_samples",
    "phases.train.steps",
    "phases.train.steps_per_epoch",
    "phases.train.wait_s",
    "phases.train.split",
    "phases.train.reader.mode",
    "phases.train.reader.reason",
    "phases.train.reader.io_retries",
    "digest.samples",
    "digest.sequence",
    "digest.epochs[].phase",
    "digest.epochs[].epoch",
    "digest.epochs[].samples",
    "digest.epochs[].sequence",
    "command",
    "versions.python",
    "versions.libjpeg-turbo",
    "versions.dtsflow",
    "versions.numpy",
    "versions.Pillow",
    "versions.PyTurboJPEG",
    "versions.hydra-core",
    "versions.pydantic",
    "resumed_from",
]

# How a folder is packed, and the SHA-256 of each file that is left.
PACKS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "photos": (
        ("--split", "train"),
        {
            "photos_train_lv0.dts":
            "5e5b8e94b300f76916329e4dd3472acfe660ef449d319fe17724fda6a95256c9",
            "photos_train_lv0.dts.manifest.jsonl":
            "8c1be1c318a97fbbe7ea5fd39daa39995024f485e29b2747a1738dcb1d960b35",
        },
    ),
    "photos as upstream": (
        ("--split", "train", "--compat", "upstream", "--min-blocks", "1"),
        {
            "photos_train_lv0.dts":
            "18fb12a0463b69efb7724c2dfc55e5808d8b2bad7cdc0ab159421737f67d1583",
            "photos_train_lv0.dts.manifest.jsonl":
            "08fb549501f4196fe0fb9101ce060a63571987cf46fd4b2965a38f4ffa39cb4c",
            "photos_train_lv0.dts.rejects.jsonl":
            "9ea2e6488a1ec4bd03e5accc7b2148e593c52b05de42daf37f27ea6836ffa606",
        },
    ),
    "photos in two volumes": (
        ("--split", "val", "--volumes", "2", "--name", "pair"),
        {
            "pair_val_lv0-00001-of-00002.dts":
            "e6e648587fb3e167fa1ddd2cc4b29697093fe2499fdef7aff0c19e0e7140bfcc",
            "pair_val_lv0-00001-of-00002.dts.manifest.jsonl":
            "a468598fc720e66c2a14657380d966703ad4b6ca8de84863afbad710f0ea37a4",
            "pair_val_lv0-00002-of-00002.dts":
            "c17c191762cd5501f880f048956c8258a16f6ae94919a931c2d66364fb22eeae",
            "pair_val_lv0-00002-of-00002.dts.manifest.jsonl":
            "b4692132623fdb23ad48f3470cd2c4225e0225cd20fb80f656f496832a9aabf4",
        },
    ),
    "digits": (
        ("--split", "train"),
        {
            "mnist_train.dts":
            "4907f8f3d45ea6115173e9371cb4ba6a8a8c903992843773b02355d0b44b1bde",
        },
    ),
    "cifar10": (
        ("--split", "test"),
        {
            "cifar10_test.dts":
            "c70345320d7908181245b65bec30e9b0c0d6771bc55c251e95236db905b8d7f5",
        },
    ),
    "cifar100": (
        ("--split", "test"),
        {
            "cifar100_test.dts":
            "15fa7614743c53388a51629de336393f9729f806b70d78f9e0c5d2be728099bb",
        },
    ),
}  # fmt: skip

INDEX = (
    '{"class_names":["class0","class1","class2"],"header":"2e44545303000000494d4147454e45'
    "54010000000000000000000000030000004e485743000000000000000003000000205247420d00000001"
    "000000000000000100000001000000000000020000000000000001000000010000000000000001001000"
    "0040000000b00400000d000000e0a60b450000000000000000000000000000000000000000000000006c"
    'ba0cd3","manifest_sha256":"8c1be1c318a97fbbe7ea5fd39daa39995024f485e29b2747a1738dcb1'
    'd960b35","packer":"dtsflow 1","options":{"split":"train","level":0,"recipe":null,"la'
    'yout":{"volumes":1,"oversize":"reject","upstream":false,"min_blocks":null}},"mean":['
    '0.5525,0.5161,0.4746],"std":[0.2724,0.2657,0.2514],"statistics_images":13}  '
)
INDEX_REST = 92  # bytes before and after it: counts, checksums, sizes of images

# The plugin of the run `records`: its loader reads lines, its parser makes two fields.
PLUGIN = """
import numpy as np
from dtsflow.plugin import DType, Field, PartFiles, configurable

@configurable
class Lines:
    folder: str

    def records(self):
        return PartFiles.numbered(self.folder, 2).lines(buffer=5)

@configurable
class Pairs:
    scale: int = 3
    fields = (Field("x", (), DType.FP64), Field("both", (2,), DType.INT32))

    def start(self):
        return self

    def parse(self, records, out):
        for row, record in enumerate(records):
            numbers = [self.scale * int(part) for part in bytes(record).split()]
            out["x"][row], out["both"][row] = sum(numbers), numbers

@configurable
class Shift:
    by: int = 1
    words = 2

    def out_fields(self, fields):
        return fields

    def apply(self, records, out, draws):
        out["x"][:] = records["x"] + self.by
        out["both"][:] = records["both"] + draws.uniform(np.arange(2)).round(1) * 10
"""
PLUGIN_FILES = {
    "frozen_numbers/__init__.py": PLUGIN,
    "frozen_numbers/conf/volume/numbers.yaml": (
        "{_target_: frozen_numbers.Lines, folder: data/lines}"
    ),
    "frozen_numbers/conf/decode/numbers.yaml": (
        "{_target_: dtsflow.decode.Parse, parser: {_target_: frozen_numbers.Pairs}}"
    ),
    "frozen_numbers/conf/po/numbers.yaml": (
        "{_target_: dtsflow.po.RecordChain, operations: [{_target_: frozen_numbers.Shift}]}"
    ),
    "frozen_numbers-1.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: frozen-numbers\nVersion: 1\n"
    ),
    "frozen_numbers-1.dist-info/entry_points.txt": (
        "[dtsflow.plugins]\nnumbers = frozen_numbers\n"
    ),
}


@pytest.fixture
def place(data: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder, where `data` leads to what is read; with the plugin."""
    for name, text in PLUGIN_FILES.items():
        path = workdir / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (workdir / "data").symlink_to(data)
    monkeypatch.syspath_prepend(workdir / "site")
    yield workdir
    sys.modules.pop("frozen_numbers", None)


def finished(*overrides: str) -> tuple[Tree, Tree]:
    """Run to the end: the items of its states, and its report."""
    with dtsflow.open(*BASE, *overrides, "consumer=digest", "name=mine") as run:
        items: Tree = json.loads(run.state().to_json())["fingerprint"]
        stream(run)
    return items, json.loads(Path("runs/mine/report.json").read_text())


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", RUNS)
def test_a_run_delivers_the_pixels_and_the_order_that_it_always_did(name: str) -> None:
    items, report = finished(*RUNS[name])
    found = report["digest"]
    assert (found["samples"], found["sequence"]) == DIGESTS[name]
    expect_items(items, name)


def expect_items(found: Tree, name: str) -> None:
    wanted = json.loads(FINGERPRINTS.read_text())[name]
    assert found == wanted
    assert list(found) == list(wanted)


@pytest.mark.usefixtures("place")
def test_all_that_a_batch_holds_is_what_it_always_was() -> None:
    """Digests are of `images` alone: here are labels, other fields and soft labels."""
    state = hashlib.sha256()
    with dtsflow.open(*BASE, *RUNS["views"]) as run:
        for batch in run:
            held = {
                "valid": batch.valid,
                "sample_ids": batch.sample_ids,
                "labels": batch.labels,
                "images": batch.images,
                **batch.fields,
            }
            assert sorted(held) == [
                "images", "labels", "sample_ids", "second", "small", "soft_labels", "valid",
            ]  # fmt: skip
            for name in sorted(held):
                array = held[name]
                about = f"{name} {array.dtype.str} {array.shape} {batch.epoch} {batch.step}"
                state.update(about.encode() + array.tobytes())
    assert state.hexdigest() == BATCHES


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_states_know_an_experiment_by_the_items_that_they_always_did(name: str) -> None:
    with dtsflow.open(*EXPERIMENTS[name]) as run:
        found: Tree = json.loads(run.state().to_json())["fingerprint"]
        # No state has it, and yet ranks agree upon it, and reports tell it.
        assert run.plan.memory.digest() == MEMORY[name]
    if name in MADE:  # by Pillow, whose next version may make other bytes
        assert len(found.pop("data")) == 16
    expect_items(found, name)


def test_every_experiment_is_pinned() -> None:
    shipped = Path(__file__).parents[1] / "conf" / "experiment"
    assert set(EXPERIMENTS) == {file.stem for file in shipped.glob("*.yaml")}
    assert set(DIGESTS) == set(RUNS)
    assert set(json.loads(FINGERPRINTS.read_text())) == {*EXPERIMENTS, *RUNS}


@pytest.mark.usefixtures("place")
def test_a_state_is_written_as_it_always_was() -> None:
    with dtsflow.open(*BASE, *RUNS["photos"]) as run:
        for batch in run:
            if (batch.epoch, batch.step) == (1, 1):
                break
        assert run.state().to_json() == STATE


@pytest.mark.usefixtures("place")
def test_a_run_goes_on_with_a_state_that_was_written_before() -> None:
    Path("saved.json").write_text(STATE)
    _, report = finished(*RUNS["photos"], "resume=saved.json")
    assert report["images"] == 8
    assert report["digest"]["sequence"] == REST


@pytest.mark.usefixtures("place")
def test_the_report_of_a_run_has_the_keys_that_it_always_had() -> None:
    assert main(["run", *BASE, *RUNS["phases"], "consumer=digest", "name=mine"]) == 0
    report = json.loads(Path("runs/mine/report.json").read_text())
    assert keys_of(report) == REPORT_KEYS


def keys_of(value: object, path: str = "") -> list[str]:
    """The paths of all that is no mapping; of a list its first item stands for all."""
    if isinstance(value, dict):
        return [found for key, one in value.items() for found in keys_of(one, f"{path}.{key}")]
    if isinstance(value, list) and value:
        return keys_of(value[0], f"{path}[]")
    return [path.removeprefix(".")]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", PACKS)
def test_a_pack_writes_the_bytes_that_it_always_did(name: str) -> None:
    source, _, _ = name.partition(" ")
    assert main(["pack", f"data/{source}", "out", *PACKS[name][0], "--quiet"]) == 0
    found = {path.name: sha(path.read_bytes()) for path in sorted(Path("out").iterdir())}
    assert found == PACKS[name][1]


@pytest.mark.usefixtures("place")
def test_the_index_of_a_volume_says_what_it_always_did() -> None:
    stored = Path("data/photos_train_lv0.dts").read_bytes()
    magic, version, total, _, _, size, *counts = struct.unpack_from("<4s7I", stored, 4096)
    assert (magic, version, total, counts) == (b"DTSX", 1, len(INDEX) + INDEX_REST, [1, 13])
    assert stored[4096 + 32 : 4096 + 32 + size].decode() == INDEX

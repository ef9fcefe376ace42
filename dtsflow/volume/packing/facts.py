"""What ranks must have alike to pack together, each in words or as a digest."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict

from dtsflow.volume.packing.gather import Gathered
from dtsflow.volume.packing.options import Packing
from dtsflow.volume.packing.shares import image_facts, recorded_options

_DIGITS = 16  # of a digest that stands for something long
_OWN = {"workers"}  # what each rank may have its own of


def option_facts(packing: Packing) -> dict[str, str]:
    """All options by their names, and the libraries that decide the bytes.

    Raises:
        PackError: The options make no sense.
    """
    options = asdict(packing)
    parts = [options.pop(name) for name in ("encoding", "choice", "source", "layout")]
    libraries = {
        name: fact
        for name, fact in recorded_options(packing).items()
        if name in {"pillow", "libjpeg_turbo"}
    }
    named: Mapping[str, object] = {
        name: fact for part in (options, *parts, libraries) for name, fact in part.items()
    }
    return {name: str(fact) for name, fact in named.items() if name not in _OWN}


def listing_facts(gathered: Gathered) -> dict[str, str]:
    """What the sources hold, before an image is opened."""
    state = hashlib.sha256()
    for one in gathered.candidates:
        state.update(image_facts(one.image))
    for reject in gathered.rejects:
        state.update(json.dumps([reject.name, reject.reason]).encode())
    return {
        "images": str(len(gathered.candidates)),
        "rejects": str(len(gathered.rejects)),
        "class names": hashlib.sha256(json.dumps(gathered.classes).encode()).hexdigest()[:_DIGITS],
        "names, sizes and times": state.hexdigest()[:_DIGITS],
    }

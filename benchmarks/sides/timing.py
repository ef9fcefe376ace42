"""What every side shares: the shape of a job and how its passes are timed.

A side is a program of its own, started with its job as one JSON word. It makes one pass
to warm up, times the others as one stretch, and prints one line of JSON. This module
imports nothing beyond Python, since a side runs in the environment of its loader.
"""

import json
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
MNIST_MEAN, MNIST_STD = (0.1307,), (0.3081,)
SIZE = 224
CIFAR_SIZE, CIFAR_PAD = 32, 4
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
JITTER, HUE, ERASE = 0.2, 0.1, 0.25  # of the VGG recipe
ERASE_SCALE, ERASE_RATIO = (0.02, 0.33), (0.3, 3.3)


def job() -> SimpleNamespace:
    """The job on the command line: `data`, `batch`, `workers`, `passes` and more."""
    return SimpleNamespace(**json.loads(sys.argv[1]))


def timed(one_pass: Callable[[], int], passes: int, about: str) -> None:
    """Run `one_pass`, which gives the images it delivered, and print what it took."""
    one_pass()
    began = time.perf_counter()
    images = sum(one_pass() for _ in range(passes))
    seconds = time.perf_counter() - began
    print(json.dumps({"images": images, "seconds": seconds, "about": about}), flush=True)

"""`dtsflow bench po`: what preprocess operations cost, and what they do."""

import argparse
import json
import statistics
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from dtsflow.cli.bench_cost import Cost, Work, batch_cost, cost, mixed, stages
from dtsflow.cli.bench_pictures import Pair, Photos, draw, example, names, photos, viewable
from dtsflow.cli.terminal import counted
from dtsflow.config.compose import compose
from dtsflow.config.configurable import nearest
from dtsflow.errors import ConfigError, PlanError
from dtsflow.native.core import load, why_absent
from dtsflow.pipeline.build import build, split_phases
from dtsflow.pipeline.pipeline import Pipeline
from dtsflow.po.chain import Chain
from dtsflow.po.operation import Operation
from dtsflow.report.report import versions
from dtsflow.seed.address import PHASE
from dtsflow.spec import IMAGES, ImageSpec

HEADING = "µs an image: median (min to max)"
WHOLE = "the whole chain"
_LABEL = 46  # letters of a label
_WHOLE_FROM = 100  # µs from which on a tenth means nothing


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table, and its pair of pictures.

    Attributes:
        label: The operation, with its arguments.
        cost: What was measured.
        pair: None for a whole chain.
    """

    label: str
    cost: Cost
    pair: Pair | None = None


def main(words: list[str]) -> int:
    """Measure what `words` ask for, print the table, write the files."""
    parser = _parser()
    asked, more = parser.parse_known_intermixed_args(words)
    asked.overrides += more
    pipeline = _configured(asked) if asked.overrides else None
    wanted = _wanted(asked.operation)
    core = load()
    height, width = asked.size
    images = photos(asked.images, height, width, asked.channels)
    facts = {
        "images": f"{counted(asked.images, 'photo')} of {height} x {width} x "
        f"{asked.channels}, uint8",
        "repeats": asked.repeats,
        "threads": 1,
        "native": why_absent() if core is None else f"compiled core, {core.cpu_level()}",
        "what": " ".join(asked.overrides) or "examples of all operations",
    }
    for name, value in facts.items():
        print(f"{name:<9}{value}")
    print(f"\n{HEADING:<{_LABEL}}{'draw':>8}{'native':>25}{'reference':>31}")
    measuring = Measuring(images, core, asked.repeats)
    lines = []
    for line in measuring.examples(wanted) if pipeline is None else measuring.chain(pipeline):
        _show(line)
        lines.append(line)
    _write(asked, lines, facts)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dtsflow bench",
        description="Time preprocess operations, native and reference, on one thread.",
        epilog="With KEY=VALUE, as po=imagenet_vgg or +experiment=NAME, those of that chain.",
    )
    parser.add_argument("what", choices=["po"], help="po: preprocess operations")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="e.g. po=imagenet_vgg")
    parser.add_argument(
        "--size", type=_size, default=(224, 224), metavar="HxW", help="of an image (224x224)"
    )
    parser.add_argument(
        "--channels", type=int, choices=[1, 3], default=3, help="1: gray, 3: RGB (3)"
    )
    parser.add_argument("--images", type=_count, default=16, help="different images (16)")
    parser.add_argument("--repeats", type=_count, default=7, help="of each measurement (7)")
    parser.add_argument(
        "--operation", action="append", metavar="NAME", help="only this one; may be repeated"
    )
    parser.add_argument("--phase", default=PHASE, help="whose chain (train)")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="configs searched first")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw images before and after")
    return parser


@dataclass(frozen=True, slots=True, eq=False)
class Measuring:
    """The terms of a measurement: on which images, by which core, how often."""

    images: Photos
    core: ModuleType | None
    repeats: int

    def examples(self, wanted: Sequence[str]) -> Iterator[Line]:
        """Yield an example of each operation.

        Where an operation refuses such images, print why.
        """
        for name in wanted:
            one = example(name, *self.images.shape[1:3])
            if isinstance(one.operation, Operation):
                try:
                    yield self._line(one.label, Work([one.operation], list(self.images)))
                except PlanError as refused:
                    print(f"{one.label}: {refused}")
            else:
                pair = Pair(one.label, self.images[0], mixed(one.operation, self.images)[0])
                measured = batch_cost(one.operation, self.images, self.core, repeats=self.repeats)
                yield Line(one.label, measured, pair)

    def chain(self, pipeline: Pipeline) -> Iterator[Line]:
        """Measure each operation of a chain on its own input, then all together."""
        chain, images = pipeline.phases[PHASE].po, list(self.images)
        if not isinstance(chain, Chain):
            raise PlanError("bench po times operations on images, and this phase has records.")
        operations = chain.branches(ImageSpec(*images[0].shape))[IMAGES].operations
        works = stages(operations, images)
        for label, work in zip(chain.describe(), works, strict=True):
            yield self._line(label, work)
        whole = Work(operations, images, pipeline.station.stored_channels)
        yield Line(WHOLE, cost(whole, self.core, repeats=self.repeats))

    def _line(self, label: str, work: Work) -> Line:
        after = viewable(work.operations[0], work.results()[0])
        measured = cost(work, self.core, repeats=self.repeats)
        return Line(label, measured, Pair(label, work.images[0], after))


def _wanted(asked: Sequence[str] | None) -> Sequence[str]:
    """Return the operations asked for; all operations if none was asked for."""
    known = names()
    for name in asked or ():
        if name not in known:
            raise ConfigError(f"--operation {name}: there is no such one.{nearest(name, known)}")
    return asked or known


def _configured(asked: argparse.Namespace) -> Pipeline:
    """Return a pipeline with the chain asked for, and a volume that nobody opens."""
    for word in asked.overrides:
        if "=" not in word and not word.startswith("~"):
            raise ConfigError(f"{word!r} is no KEY=VALUE. See `dtsflow bench --help`.")
    if asked.operation:
        raise ConfigError("--operation chooses among all operations, not those of a chain.")
    values = compose(asked.overrides, config_dir=asked.config_dir).values
    shared, phases = split_phases(values)
    if asked.phase not in phases:
        raise ConfigError(f"--phase {asked.phase}: there are only {', '.join(phases)}.")
    rest = compose(["volume.path=unread"], config_dir=asked.config_dir).values
    made = build({**rest, "station": shared["station"], "po": phases[asked.phase]["po"]})
    if not made.phases[PHASE].po.operations:
        raise ConfigError("the chain has no operation; choose one, as po=imagenet_train.")
    return made


def _show(line: Line) -> None:
    figures = line.cost
    native = "-" if figures.native is None else _spread(figures.native)
    shown = textwrap.shorten(line.label, _LABEL - 2, placeholder=" ...")
    draws, reference = _rounded(statistics.median(figures.draw)), _spread(figures.reference)
    print(f"{shown:<{_LABEL}}{draws:>8}{native:>25}{reference:>31}", flush=True)


def _spread(values: Sequence[float]) -> str:
    middle, low, high = map(_rounded, (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


def _rounded(value: float) -> str:
    return f"{value:,.1f}" if value < _WHOLE_FROM else f"{value:,.0f}"


def _write(asked: argparse.Namespace, lines: Sequence[Line], facts: dict[str, Any]) -> None:
    if asked.json is not None:
        measured = [{"operation": line.label, "us": asdict(line.cost)} for line in lines]
        document = {"facts": facts, "versions": versions(), "operations": measured}
        asked.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        print(f"written to {asked.json}")
    pairs = [line.pair for line in lines if line.pair is not None]
    if asked.png is not None and pairs:
        draw(pairs).save(asked.png, "PNG")
        print(f"drawn to {asked.png}")


def _size(word: str) -> tuple[int, int]:
    height, _, width = word.partition("x")
    return _count(height), _count(width or height)


def _count(word: str) -> int:
    count = int(word)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} is too few; give 1 or more")
    return count

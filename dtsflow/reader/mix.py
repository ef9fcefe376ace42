"""`reader.mix`: several data sets that are read as one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dtsflow.config.configurable import configurable
from dtsflow.reader.interleave import THOUSAND, MixSpec
from dtsflow.volume.data_set import DataSet, Source
from dtsflow.volume.datasets.config import Dts, LoadedImages
from dtsflow.volume.datasets.image_list import ImageLoader
from dtsflow.volume.datasets.mixed import MixedSet, mixed
from dtsflow.volume.datasets.order_from import arranged_as
from dtsflow.volume.datasets.volume_set import VolumeSet


@configurable
class MixedSource:
    """One of the data sets of a mix.

    Attributes:
        volume: The data set; without a `_target_`, DTS volumes.
        weight: Its share of the samples of an epoch, in whole thousandths; None: its
            samples come once each, as those of all the others.
        order_from: For images in files, the path of the volumes that were packed from
            them: they give ids, blocks and labels.
    """

    volume: Source | ImageLoader | Dts
    weight: Annotated[float, Field(gt=0, le=1, strict=True)] | None = None
    order_from: Annotated[str, Field(min_length=1)] | None = None

    @property
    def source(self) -> Source:
        """Return where it comes from."""
        return LoadedImages(self.volume) if isinstance(self.volume, ImageLoader) else self.volume

    def scan(self, cache: Path | None = None) -> DataSet:
        """Find the data set, in the order that `order_from` gives it.

        Raises:
            VolumeError: Files are missing, damaged, or no single whole set.
            PlanError: The sources are not images, or `order_from` cannot order them.
        """
        found = self.source.scan(cache)
        return found if self.order_from is None else arranged_as(found, self.order_from, cache)


@dataclass(frozen=True, slots=True)
class Mix:
    """The data sets of a mix as one; satisfies Source.

    Attributes:
        sources: Each by its name, in the order that their sample_ids have.
        samples: Samples of an epoch, with weights only; None: as many as there are.
    """

    sources: Mapping[str, MixedSource]
    samples: int | None = None

    def prepare(self) -> None:
        """Make what has to exist on disk before planning."""
        for source in self.sources.values():
            source.source.prepare()

    def scan(self, cache: Path | None = None) -> VolumeSet | MixedSet:
        """Find the data sets of all sources; nothing stays open.

        Raises:
            VolumeError: Files are missing, damaged, or no single whole set.
            PlanError: The sources' images or classes differ, or an `order_from` cannot
                order its source.
        """
        return mixed({name: source.scan(cache) for name, source in self.sources.items()})

    def mixing(self, volumes: DataSet) -> MixSpec:
        """Return how the sources of what `scan` gave take turns."""
        assert isinstance(volumes, VolumeSet | MixedSet)
        weights = [source.weight for source in self.sources.values() if source.weight is not None]
        thousandths = tuple(round(THOUSAND * weight) for weight in weights)
        return MixSpec(tuple(self.sources), volumes.blocks_of_sources, thousandths, self.samples)

    def problem(self) -> str:
        """Return what is wrong with the weights and how to mend it.

        Empty if nothing is.
        """
        given = {name: source.weight for name, source in self.sources.items()}
        weights = {name: weight for name, weight in given.items() if weight is not None}
        if not weights:
            if self.samples is not None:
                return (
                    f"mix_samples={self.samples} needs weights: without them each sample of "
                    "the mix comes once. Give each source a weight, or leave it out."
                )
            return ""
        if without := [name for name in given if name not in weights]:
            return (
                f"mix: {', '.join(weights)} has a weight and {', '.join(without)} has none. Give "
                "each source a weight, or none."
            )
        for name, weight in weights.items():
            if round(THOUSAND * weight) / THOUSAND != weight or round(THOUSAND * weight) == 0:
                return f"mix.{name}.weight={weight} is no whole thousandth, such as 0.333."
        total = sum(round(THOUSAND * weight) for weight in weights.values())
        if total != THOUSAND:
            listed = " + ".join(str(weight) for weight in weights.values())
            return f"mix: the weights {listed} are {total / THOUSAND}, and must be 1 together."
        return ""

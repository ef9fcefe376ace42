"""`dtsflow pack`: images to DTS volumes."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dtsflow.cli.launched import launched
from dtsflow.cli.terminal import PartProgress, counted, printable
from dtsflow.memory.drawing import human_bytes
from dtsflow.ranks.collective import Collective
from dtsflow.ranks.group import Group
from dtsflow.volume import Choice, Encoding, Layout, Packing, SourceFormat, estimate, pack
from dtsflow.volume.format.manifest import rejects_path
from dtsflow.volume.packing.pack import meeting_place
from dtsflow.volume.source.base import FORMATS
from dtsflow.volume.source.plugin import source_names

Add = Callable[..., object]  # argparse's add_argument

_SHOWN = 10  # rejects that a dry run lists

_EPILOG = """\
SRC is one or several of
  a folder of class folders            flowers/train
  a flat folder, with --labels         val/ --labels val.csv
  a tar of either, or of one tar per class, read in place
                                       ILSVRC2012_img_train.tar
  WebDataset shards: a folder of .tar files, a quoted pattern or brace list
                                       'flowers/train-{000000..000009}.tar'
  Parquet files with a column of images, with --spool: as shards
                                       'flowers/data/train-*.parquet'
  DTS volumes: a file, a folder, or a quoted pattern
                                       imagenet_train_lv0.dts
  what a plugin reads, with --option   flowers.csv --option label=species
or one set of MNIST or CIFAR files (idx, or the binary version), also in their archives.

ranks
  mpirun -n 4 dtsflow pack SRC DST_FOLDER --split train --volumes 4
packs with four processes, under torchrun too: the bytes of one process.

levels
  0  bytes unchanged, but for --restarts
  1  short side at most 400 pixels, JPEG quality 90
  2  as 1, then the middle 600 x 400 pixels
  3  as 2, JPEG quality 80
"""


def main(words: list[str]) -> int:
    """Pack what `words` name; 0 also when single images were rejected.

    What a launcher started several times packs together, and rank 0 tells of it.
    """
    asked = _parser().parse_args(words)
    with launched(partial(meeting_place, asked.sources, asked.folder)) as group:
        packing = Collective(group).together(partial(_packing, asked))
        lines = (_dry_run if asked.dry_run else _packed)(asked, packing, group)
    if group.rank.index == 0:
        for line in lines:
            print(line)
    return 0


def _packed(asked: argparse.Namespace, packing: Packing, group: Group) -> list[str]:
    with PartProgress(quiet=asked.quiet or group.rank.index > 0) as progress:
        packed = pack(asked.sources, asked.folder, packing, progress.show, group)
    lines = [
        f"{counted(packed.images, 'image')}, {counted(packed.classes, 'class')}, "
        f"{counted(packed.blocks, 'block')}, "
        f"{human_bytes(packed.bytes)}: {_names(packed.volumes)}"
    ]
    if packed.left_out:
        lines.append(f"{counted(packed.left_out, 'image')} left out, not asked for")
    if packed.rejects:
        lists = tuple(filter(Path.exists, map(rejects_path, packed.volumes)))
        lines.append(f"{counted(packed.rejects, 'file')} rejected, see {_names(lists)}")
    return lines


def _dry_run(asked: argparse.Namespace, packing: Packing, group: Group) -> list[str]:
    return Collective(group).first(partial(_estimate, asked, packing)) or []


def _estimate(asked: argparse.Namespace, packing: Packing) -> list[str]:
    with PartProgress(quiet=asked.quiet) as progress:
        found = estimate(asked.sources, asked.folder, packing, progress.show)
    expected = found.expected
    about = "" if expected.is_exact else "about "
    facts = [
        ("would write", _names(found.volumes)),
        ("images", f"{found.images:,} of {counted(found.classes, 'class')}"),
        ("left out", f"{found.left_out:,} not asked for"),
        ("rejected", f"{len(found.rejects):,}"),
        ("blocks", f"{about}{expected.blocks:,}, {human_bytes(expected.bytes)}"),
        ("time", f"about {expected.seconds:,.0f} s to read and encode, and the writing"),
    ]
    lines = [f"{name:<12} {value}" for name, value in facts]
    lines += [printable(f"  {one.name}: {one.reason}") for one in found.rejects[:_SHOWN]]
    if len(found.rejects) > _SHOWN:
        lines.append(f"  and {len(found.rejects) - _SHOWN:,} more")
    return lines


def _names(volumes: tuple[Path, ...]) -> str:
    more = f" and {len(volumes) - 1:,} more" if len(volumes) > 1 else ""
    return f"{volumes[0]}{more}"


def _packing(asked: argparse.Namespace) -> Packing:
    return Packing(
        split=asked.split,
        name=asked.name,
        encoding=Encoding(
            level=asked.level,
            short=asked.short,
            long=asked.long,
            quality=asked.quality,
            subsampling=asked.subsampling,
            restarts=asked.restarts,
        ),
        choice=Choice(
            labels=asked.labels,
            classes=asked.classes,
            only=tuple(asked.only),
            ids=asked.ids,
            fraction=asked.fraction,
            limit=asked.limit,
        ),
        source=SourceFormat(
            kind=asked.format,
            image_field=asked.image_field,
            label_field=asked.label_field,
            spool=asked.spool,
            options=dict(asked.option),
        ),
        layout=Layout(
            volumes=asked.volumes,
            oversize=asked.oversize,
            upstream=asked.compat == "upstream",
            min_blocks=asked.min_blocks,
        ),
        workers=asked.workers,
        resume=asked.resume,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dtsflow pack",
        description="Pack images into DTS volumes. Sources are only read.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("sources", type=Path, nargs="+", metavar="SRC", help="what to pack, see below")
    add("folder", type=Path, metavar="DST_FOLDER", help="gets NAME_SPLIT_lvLEVEL.dts")
    add("--split", required=True, choices=("train", "val", "test"))
    add("--level", type=int, choices=(0, 1, 2, 3), default=0, help="compression (0)")
    add("--name", help="data set's name in the file name (SRC's name)")
    add("--dry-run", action="store_true", help="say what would be written, and stop")
    add("--resume", action="store_true", help="go on with a pack that was interrupted")
    add("--workers", type=int, metavar="N", help="threads (one per processor)")
    add("--quiet", action="store_true", help="no progress")
    _add_format(parser.add_argument_group("what SRC is and holds").add_argument)
    _add_choice(parser.add_argument_group("labels and subsets").add_argument)
    _add_layout(parser.add_argument_group("blocks and volumes").add_argument)
    _add_encoding(parser.add_argument_group("other than the level says").add_argument)
    return parser


def _add_format(add: Add) -> None:
    add(
        "--format",
        choices=(*FORMATS, *source_names()),
        default="auto",
        help="what SRC is, where its look does not say (auto)",
    )
    add("--image-field", metavar="NAME", help="suffix of the images (jpg), or their column")
    add("--label-field", metavar="NAME", help="field of the .json members, or column of labels")
    add("--spool", type=Path, metavar="FOLDER", help="unpack images of Parquet files here, once")
    add(
        "--option",
        action="append",
        type=_option,
        default=[],
        metavar="NAME=VALUE",
        help="an attribute of a plugin's source (repeatable)",
    )


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    return name, value


def _add_choice(add: Add) -> None:
    add("--labels", type=Path, metavar="CSV", help="file name and class of each image")
    add(
        "--classes",
        type=Path,
        metavar="FILE",
        help="class names in label order, one a line; or a volume that has them",
    )
    add("--only", action="append", default=[], metavar="CLASS", help="this class (repeatable)")
    add("--ids", type=Path, metavar="FILE", help="these images, by number, one a line")
    add("--fraction", type=float, metavar="F", help="this share of every class")
    add("--limit", type=int, metavar="N", help="at most so many images")


def _add_layout(add: Add) -> None:
    add(
        "--volumes", type=int, default=1, metavar="N", help="volumes to write (1); ranks share them"
    )
    add(
        "--oversize",
        choices=("reject", "reencode"),
        default="reject",
        help="leave an image out that is larger than a block (reject), or encode it again",
    )
    add(
        "--compat",
        choices=("none", "upstream"),
        default="none",
        help="upstream: byte for byte as upstream's exporter",
    )
    add("--min-blocks", type=int, metavar="N", help="upstream's minimum at level 0")


def _add_encoding(add: Add) -> None:
    add("--short", type=int, metavar="PIXELS", help="limit of the short side (400)")
    add("--long", type=int, metavar="PIXELS", help="limit of the long side (3/2 of short)")
    add("--quality", type=int, metavar="Q", help="JPEG quality, 1 to 100")
    add("--subsampling", metavar="S", help="4:4:4, 4:2:2 or 4:2:0")
    add(
        "--restarts",
        action="store_true",
        help="give JPEGs restart markers, without loss: crops decode faster",
    )

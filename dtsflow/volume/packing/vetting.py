"""Parting the good images from the bad before anything is packed."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from dtsflow.ranks.crew import Crew
from dtsflow.volume.packing.gather import Gathered, Progress
from dtsflow.volume.packing.prepare import Candidate, Preparer
from dtsflow.volume.source.listing import Reject, SourceImage

_TURN = 64  # images that a thread looks at in a row

# Of an image that can be packed its stored size, width and height; else the reason.
_Verdict = list[int] | str


def vet_all(
    gathered: Gathered, preparer: Preparer, pool: ThreadPoolExecutor, progress: Progress, crew: Crew
) -> Gathered:
    """Open every image's header and part the good from the bad, each in order.

    Each rank looks at its share; all get the whole. `progress` hears of the share.

    Raises:
        PackError: An image cannot be read for a reason that is none of its own.
    """
    images = [one.image for one in gathered.candidates]
    turns = [images[start : start + _TURN] for start in range(0, len(images), _TURN)]
    own = crew.own(turns)
    done, share = 0, sum(map(len, own))
    found: list[list[_Verdict]] = []
    progress("check", done, share)
    for verdicts in pool.map(lambda turn: [_verdict(preparer, one) for one in turn], own):
        found.append(verdicts)
        done += len(verdicts)
        progress("check", done, share)
    every = [verdict for verdicts in crew.exchange(found) for verdict in verdicts]
    candidates, rejects = [], list(gathered.rejects)
    for image, verdict in zip(images, every, strict=True):
        if isinstance(verdict, str):
            rejects.append(Reject(image.name, verdict))
        else:
            candidates.append(Candidate(image, *verdict))
    return replace(gathered, candidates=tuple(candidates), rejects=tuple(rejects))


def _verdict(preparer: Preparer, image: SourceImage) -> _Verdict:
    vetted = preparer.vet(image)
    if isinstance(vetted, Reject):
        return vetted.reason
    return [vetted.size, vetted.width, vetted.height]

import numpy as np

from dtsflow.po import Chain, DoNothing, RandomCrop, RandomHorizontalFlip
from dtsflow.po.operation import Draws
from dtsflow.spec import ImageSpec


def test_it_changes_nothing() -> None:
    op, sizes = DoNothing(), np.array([[2, 5]])
    row = op.draw(Draws(np.empty((1, 0), np.uint32)), sizes)
    image = np.random.default_rng(0).integers(0, 256, (2, 5, 3), np.uint8)
    out = np.empty_like(image)
    op.apply(image, out, row[0])
    assert np.array_equal(out, image)
    assert op.out_sizes(sizes, row).tolist() == [[2, 5]]
    assert op.out_spec(ImageSpec(None, 5, 1)) == ImageSpec(None, 5, 1)


def test_it_holds_a_place_so_that_the_draws_of_others_stay() -> None:
    def last(*before: DoNothing | RandomHorizontalFlip) -> bytes:
        program = Chain((*before, RandomCrop(4))).program(ImageSpec(None, None, 3))
        sizes = np.full((9, 2), 50)
        rows = program.draw(seed=1, ids=np.arange(9), epoch=0, phase=0, sizes=sizes)
        return rows[-1].tobytes()

    assert last(DoNothing()) == last(RandomHorizontalFlip())
    assert last(DoNothing()) != last()

import numpy as np

from dtsflow.cli.bench_pictures import Pair, draw, viewable
from dtsflow.po import Normalize
from dtsflow.tensor.dtype import DType

WHITE, RED, BLUE = (255, 255, 255), (200, 0, 0), (0, 0, 200)


def plain(height: int, width: int, colour: tuple[int, ...]) -> np.ndarray:
    return np.full((height, width, len(colour)), colour, np.uint8)


def test_a_pair_is_drawn_in_one_scale_before_on_the_left() -> None:
    page = draw([Pair("Half", plain(80, 80, RED), plain(40, 40, BLUE))])
    counts = {colour: number for number, colour in page.getcolors(1 << 16) or []}
    assert counts[RED] == 160 * 160
    assert counts[BLUE] == 80 * 80
    pixels = np.asarray(page)
    assert np.argwhere((pixels == RED).all(2))[:, 1].max() < (
        np.argwhere((pixels == BLUE).all(2))[:, 1].min()
    )


def test_pairs_fill_lines_and_each_has_its_label() -> None:
    pairs = [Pair(f"Operation(number={n})", *[plain(8, 8, RED)] * 2) for n in range(4)]
    one, four = draw(pairs[:1]), draw(pairs)
    assert (four.width > one.width * 2, four.height > one.height * 1.5) == (True, True)
    unlabelled = draw([Pair("", *[plain(8, 8, RED)] * 2)])
    assert (np.asarray(one) != np.asarray(unlabelled)).any()


def test_gray_and_long_and_thin_images_are_drawn() -> None:
    page = draw([Pair("Thin", plain(1, 300, (7,)), plain(300, 1, (9,)))])
    colours = [colour for _, colour in page.getcolors(1 << 16) or []]
    assert {(7, 7, 7), (9, 9, 9)} <= set(colours)


def test_a_normalisation_is_undone_for_the_eye() -> None:
    operation = Normalize(preset="imagenet", dtype=DType.FP16)
    image = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
    out = np.empty((8, 8, 3), np.float16)
    operation.apply(image, out, operation.draw(None, np.ones((1, 2)))[0])  # type: ignore[arg-type]  # it draws nothing
    assert (viewable(operation, out) == image).all()
    assert viewable(object(), image) is image

"""DALI on the CPU: region decode, resize, flip, normalise, NHWC half batches."""

from nvidia import dali
from nvidia.dali import fn, pipeline_def, types
from timing import MEAN, RATIO, SCALE, SIZE, STD, job, timed


@pipeline_def
def train(folder: str, antialias: bool):  # noqa: FBT001  # DALI's decorator passes it by name
    """The training pipeline of DALI's own examples, on the CPU."""
    stored, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="files")
    image = fn.decoders.image_random_crop(
        stored,
        device="cpu",
        output_type=types.RGB,
        random_area=list(SCALE),
        random_aspect_ratio=list(RATIO),
        num_attempts=10,
    )
    image = fn.resize(
        image, size=(SIZE, SIZE), interp_type=types.INTERP_LINEAR, antialias=antialias
    )
    image = fn.crop_mirror_normalize(
        image,
        dtype=types.FLOAT16,
        output_layout="HWC",
        mean=[255 * value for value in MEAN],
        std=[255 * value for value in STD],
        mirror=fn.random.coin_flip(),
    )
    return image, labels


def main() -> None:
    """Time as many batches as whole ones fit into each pass."""
    asked = job()
    pipeline = train(
        asked.data,
        antialias=asked.antialias,
        batch_size=asked.batch,
        num_threads=asked.workers,
        device_id=None,
    )
    pipeline.build()
    steps = pipeline.epoch_size("files") // asked.batch

    def one_pass() -> int:
        images = 0
        for _ in range(steps):
            batch, labels = pipeline.run()
            images += len(batch)
            int(labels.as_array()[0, 0])
        return images

    timed(one_pass, asked.passes, f"DALI {dali.__version__}")


if __name__ == "__main__":
    main()

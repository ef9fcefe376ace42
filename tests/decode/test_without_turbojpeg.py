import json
import os
import subprocess
import sys
from pathlib import Path

from dtsflow.testing import jpeg, write_block_volume

# What a machine without libturbojpeg does, for a process that finds this on its path.
SITE = """
import ctypes

class CDLL(ctypes.CDLL):
    def __init__(self, name, *arguments, **options):
        if "turbojpeg" in str(name):
            raise OSError(f"{name}: cannot open shared object file")
        super().__init__(name, *arguments, **options)

ctypes.CDLL = CDLL
"""


def run(workdir: Path, name: str, **environment: str) -> str:
    """Run the volume in `workdir` into `runs/NAME`; what was said on standard error."""
    words = ["+experiment=image_folder", "volume.path=x.dts", "batch_size=8", "workers=3"]
    words += ["consumer=digest", "po.operations[0].size=32", f"name={name}"]
    done = subprocess.run(
        [sys.executable, "-m", "dtsflow", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=workdir,
        env={**os.environ, "DTSFLOW_NATIVE": "0", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_pillow_gives_the_same_digest_after_one_warning(workdir: Path) -> None:
    images = [(jpeg(70 + i, 50, seed=i), i % 4) for i in range(20)]
    write_block_volume(workdir / "x.dts", [images])
    (workdir / "site").mkdir()
    (workdir / "site" / "sitecustomize.py").write_text(SITE)
    paths = [str(workdir / "site"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    run(workdir, "turbo")
    said = run(workdir, "pillow", PYTHONPATH=os.pathsep.join(filter(None, paths)))
    assert said.count("JPEGs are decoded by Pillow, which is slower") == 1
    assert said.count("libturbojpeg not found: install libturbojpeg0") == 1
    reports = [
        json.loads(Path("runs", name, "report.json").read_text()) for name in ("turbo", "pillow")
    ]
    assert reports[1]["versions"]["libjpeg-turbo"] == "none"
    assert reports[0]["digest"] == reports[1]["digest"]
    assert reports[1]["images"] == 20

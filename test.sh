#!/usr/bin/env bash
# Everything that continuous integration checks; sets up all it needs.
set -euo pipefail
cd "$(dirname "$0")"
. .ci/setup.sh
set_up
say "pip install dtsflow with its test dependencies"
if ! python -c 'import torch' 2>/dev/null; then
  pip_install torch==2.13.0 # one version, so that every machine tests the same interop
fi
pip_install -e '.[dev,jax,mpi-wheel,parquet,sweep,torch]'
pip_install --no-deps -e plugins/mini_csv -e plugins/image_manifest
say "ruff"
ruff check
ruff format --check
say "mypy"
mypy
say "pytest"
pytest -m "not alone" --numprocesses auto --dist worksteal "$@"
say "pytest, what runs alone"
pytest -m alone "$@"
say "pytest of the plugins"
pytest plugins/*/tests
.ci/fuzz.sh 20

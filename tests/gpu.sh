#!/usr/bin/env bash
# The contract suite, and training by a graph, on a real device: needs a CUDA driver; installs cupy where it is absent.
# CUDA_MAJOR=12 tests/gpu.sh takes the cupy for a driver of CUDA 12.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
if ! "$PYTHON" -c 'import cupy' 2>/dev/null; then
  "$PYTHON" -m pip install --quiet "cupy-cuda${CUDA_MAJOR:-13}x[ctk]>=14"
fi
"$PYTHON" -c 'import cupy; cupy.arange(3).sum(); print("cupy", cupy.__version__)'
exec "$PYTHON" -m pytest -m gpu tests/arena tests/consumer -q "$@"

#!/usr/bin/env bash
# Makes benchmarks/.peers: a virtual environment of their own for the loaders that dtsflow
# is compared with. A peer that cannot be installed is named with its reason, here and in
# the results; the others go on without it. Run again to try again.
set -uo pipefail
cd "$(dirname "$0")/.."
. .ci/setup.sh
peers=benchmarks/.peers
failed=()

# FFCV 1.0.2 does not work with NumPy 2, and later OpenCVs want it.
older=("numpy<2" "opencv-python<4.12" "opencv-python-headless<4.12")

tell_failed() { # peer, log
  reason=$(grep -i 'error' "$2" | tail -n 1)
  [ -n "$reason" ] || reason=$(tail -n 1 "$2")
  printf '%s\n' "${reason:-unknown}" >"$peers/$1.failed"
  failed+=("$1")
}

install() { # peer, module to import, packages...
  local peer=$1 module=$2
  shift 2
  say "$peer: pip install $*"
  rm -f "$peers/$peer.failed"
  if "$peers/bin/python" -m pip install --quiet --disable-pip-version-check "$@" \
    >"$peers/$peer.log" 2>&1 &&
    "$peers/bin/python" -c "import $module" >>"$peers/$peer.log" 2>&1; then
    "$peers/bin/python" - "$peer" "${1%%=*}" <<'PYTHON'
import sys
from importlib.metadata import version
print(sys.argv[1], version(sys.argv[2]))
PYTHON
  else
    tell_failed "$peer" "$peers/$peer.log"
  fi
}

if [ ! -x "$peers/bin/python" ]; then
  "$(usable_python)" -m venv "$peers" || exit 1
fi
command -v cc >/dev/null && command -v c++ >/dev/null || apt_install gcc g++ || true
[ -e /usr/include/jpeglib.h ] || apt_install libjpeg-dev || true
pkg-config --exists opencv4 libturbojpeg 2>/dev/null ||
  apt_install pkg-config libopencv-dev libturbojpeg0-dev ||
  apt_install pkg-config libopencv-dev libturbojpeg-dev || true

install torchvision torchvision torchvision==0.29.1 torch==2.14.1 "numpy<2"
install dali nvidia.dali nvidia-dali-cuda120==2.4.0 "numpy<2"
# FFCV's setup looks for its compiler flags itself and needs setuptools in sight.
install ffcv ffcv ffcv==1.0.2 setuptools wheel numba "${older[@]}"

for peer in ${failed[@]+"${failed[@]}"}; do
  echo "$peer not installed: $(cat "$peers/$peer.failed")"
done
[ ${#failed[@]} -eq 0 ]

#!/usr/bin/env bash
# The main job, end to end, on data it makes itself: sets up, installs, streams two epochs.
set -euo pipefail
cd "$(dirname "$0")"
. .ci/setup.sh
set_up
say "pip install dtsflow"
pip_install -e .
say "python -m dtsflow +experiment=quickstart"
exec python -m dtsflow +experiment=quickstart "$@"

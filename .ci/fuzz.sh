#!/usr/bin/env bash
# Fuzz the compiled core: fuzz.sh [SECONDS], 20 for each target unless told.
# Fails on any finding, and leaves the input that shows it in build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/setup.sh
seconds=${1:-20}
build=build/fuzz

# The compiler, its fuzzing runtime, and what the core is made with.
can_build() {
  command -v clang++ >/dev/null && command -v cmake >/dev/null && command -v make >/dev/null &&
    echo '#include <stdio.h>
#include <jpeglib.h>
#include <fuzzer/FuzzedDataProvider.h>
extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, size_t) { return 0; }' |
    clang++ -std=c++20 -x c++ -fsanitize=fuzzer,address,undefined -o /dev/null - 2>/dev/null
}

if ! can_build; then
  # The runtime's package has its own name from Debian 12 on.
  apt_install clang cmake make libjpeg-dev libclang-rt-dev ||
    apt_install clang cmake make libjpeg-dev || true
fi
if ! can_build; then
  if [ "${CI:-}" = true ]; then
    echo "clang with libFuzzer can't be had, and CI must fuzz."
    exit 1
  fi
  echo "skipped: no clang"
  exit 0
fi

set_up
python -c 'import PIL' 2>/dev/null || pip_install pillow
say "fuzz targets"
cmake -S dtsflow/native -B "$build" -DDTSFLOW_FUZZ=ON \
  -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ >/dev/null
cmake --build "$build" --parallel 2
python dtsflow/native/fuzz/corpus.py "$build/seeds"
mkdir -p "$build/findings"

# The core must answer `no memory` where the allocator does.
export ASAN_OPTIONS=allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1
for target in probe chunk draw; do
  say "fuzz_$target, $seconds s"
  mkdir -p "$build/corpus/$target"
  "$build/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -max_len=4096 -print_final_stats=1 -verbosity=0 -dict=dtsflow/native/fuzz/jpeg.dict \
    -artifact_prefix="$build/findings/${target}_" "$build/corpus/$target" "$build/seeds/$target" \
    2>"$build/$target.log" || {
    tail -n 60 "$build/$target.log"
    echo "A finding: the input is in $build/findings. Run it again: $build/fuzz/fuzz_$target INPUT"
    exit 1
  }
  grep -E 'executed_units|peak_rss' "$build/$target.log"
done

// Scale an image, in the two exactly defined ways of dtsflow/po/geometry.py.
#pragma once

#include "buffer.hpp"
#include "status.hpp"

namespace dtsflow {

// The taps of one axis: output i sums `count[i]` source pixels from `first[i]` on, with
// weights of 22 bits; rows of `weights` are `taps` long, zero behind the last.
struct Axis {
  Buffer<int> first, count;
  Buffer<std::int32_t> weights;
  Buffer<std::int16_t> split;  // the same weights as pairs of 11 bits, for vector code
  Buffer<double> exact;
  int taps = 0;
};

struct ResampleScratch {
  Axis across, down;
  Buffer<std::uint8_t> between;
  Buffer<std::int32_t> sums;
};

// Fill `out` (height x width x view.channels, `out_stride` bytes a row; rows may be
// overwritten up to kSlack bytes past their end, so they must be scratch).
Status resample(const View &view, int height, int width, bool antialias, std::uint8_t *out,
                std::ptrdiff_t out_stride, ResampleScratch &scratch);

}  // namespace dtsflow

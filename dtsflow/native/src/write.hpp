// The one write to a batch row: mirror, normalise, cast and channel padding in one pass.
#pragma once

#include "buffer.hpp"

namespace dtsflow {

enum class Cast { uint8, fp16, bf16, fp32 };

constexpr int element_bytes(Cast cast) {
  return cast == Cast::uint8 ? 1 : cast == Cast::fp32 ? 4 : 2;
}

// How a pixel becomes an element of the batch. `table` has 256 elements a channel, each
// the exact result for that value; it is also what vector code must agree with.
struct Finish {
  Cast cast = Cast::uint8;
  int channels = 0;
  int stored_channels = 0;
  const float *scale = nullptr;   // a of y = x * a + b, a channel; unused for uint8
  const float *offset = nullptr;  // b
  const void *table = nullptr;    // unused for uint8
};

// Write `view`, left to right mirrored or not, compactly to `out`. `view` must be
// readable kSlack bytes past its end.
void write_row(const View &view, bool mirrored, const Finish &finish, std::uint8_t *out);

}  // namespace dtsflow

#include "sharpen.hpp"

#include <cstring>

#include "blend.hpp"

namespace dtsflow {
namespace {

// x div 26, for x up to 2 * 13 * 255 + 13.
DTSFLOW_INLINE std::int32_t over_26(std::int32_t x) { return (x * 40330) >> 20; }

// The bytes from `first` to `last` of one inner row.
DTSFLOW_INLINE void sharpen_row(const std::uint8_t *above, const std::uint8_t *row,
                                const std::uint8_t *below, int first, int last, int channels,
                                float factor, std::uint8_t *out) {
  for (int i = first; i < last; ++i) {
    const int left = i - channels, right = i + channels;
    const std::int32_t sum = above[left] + above[i] + above[right] + row[left] + 5 * row[i] +
                             row[right] + below[left] + below[i] + below[right];
    out[i] = static_cast<std::uint8_t>(blend(over_26(2 * sum + 13), row[i], factor));
  }
}

#if DTSFLOW_X86
__attribute__((target("avx2"))) void sharpen_row_avx2(const std::uint8_t *above,
                                                      const std::uint8_t *row,
                                                      const std::uint8_t *below, int first, int last,
                                                      int channels, float factor,
                                                      std::uint8_t *out) {
  sharpen_row(above, row, below, first, last, channels, factor, out);
}
#endif

}  // namespace

Status sharpen(View &view, const StepParams &params, StepScratch &scratch) {
  float factor;
  std::memcpy(&factor, &params.own[0], sizeof factor);
  if (!is_factor(factor)) return Status::misfit;
  View made;
  const int channels = view.channels, bytes = view.width * channels;
  std::uint8_t *to = scratch.images.next(view.height, view.width, channels, made);
  if (!to) return Status::no_memory;
  auto run = sharpen_row;
#if DTSFLOW_X86
  if (cpu_level() >= CpuLevel::avx2) run = sharpen_row_avx2;
#endif
  for (int y = 0; y < view.height; ++y, to += made.stride) {
    const std::uint8_t *const row = view.data + y * view.stride;
    std::memcpy(to, row, static_cast<std::size_t>(bytes));  // the border stays as it is
    if (y == 0 || y + 1 == view.height) continue;
    run(row - view.stride, row, row + view.stride, channels, bytes - channels, channels, factor, to);
  }
  view = made;
  return Status::ok;
}

}  // namespace dtsflow

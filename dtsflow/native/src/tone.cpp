#include "tone.hpp"

#include <algorithm>
#include <cstring>

#include "rgb_block.hpp"

namespace dtsflow {
namespace {

template <bool kVector>
DTSFLOW_INLINE void gray_rows(const View &view, std::uint8_t *out, std::ptrdiff_t stride) {
  RgbBlock block;
  for (int y = 0; y < view.height; ++y) {
    const std::uint8_t *const from = view.data + y * view.stride;
    for (int x = 0; x < view.width; x += RgbBlock::kPixels) {
      const int pixels = std::min(RgbBlock::kPixels, view.width - x);
      load<kVector>(from + 3 * x, pixels, block);
      for (int i = 0; i < RgbBlock::kPixels; ++i) {
        block.r[i] = block.g[i] = block.b[i] = luma(block.r[i], block.g[i], block.b[i]);
      }
      store<kVector>(block, pixels, out + y * stride + 3 * x);
    }
  }
}

#if DTSFLOW_X86
__attribute__((target("avx2"))) void gray_rows_avx2(const View &view, std::uint8_t *out,
                                                    std::ptrdiff_t stride) {
  gray_rows<true>(view, out, stride);
}
#endif

// What each value becomes, in each channel.
struct Tables {
  std::uint8_t of[4][256];

  void set_all(int x, int value) {
    for (auto &table : of) table[x] = static_cast<std::uint8_t>(value);
  }
};

Status by_tables(View &view, const Tables &tables, StepScratch &scratch) {
  View made;
  const int channels = view.channels;
  std::uint8_t *to = scratch.images.next(view.height, view.width, channels, made);
  if (!to) return Status::no_memory;
  for (int y = 0; y < view.height; ++y, to += made.stride) {
    const std::uint8_t *from = view.data + y * view.stride;
    if (channels == 3) {
      for (int x = 0; x < 3 * view.width; x += 3) {
        to[x] = tables.of[0][from[x]];
        to[x + 1] = tables.of[1][from[x + 1]];
        to[x + 2] = tables.of[2][from[x + 2]];
      }
      continue;
    }
    for (int x = 0; x < view.width * channels; ++x) to[x] = tables.of[x % channels][from[x]];
  }
  view = made;
  return Status::ok;
}

// As Pillow: a value becomes how many pixels are below it, in steps that make 255 of all
// pixels but the brightest.
void spread(const std::int64_t *counts, std::int64_t pixels, std::uint8_t *table) {
  int last = 255;
  while (last > 0 && counts[last] == 0) --last;
  const std::int64_t step = (pixels - counts[last]) / 255;
  std::int64_t below = step / 2;
  for (int x = 0; x < 256; ++x) {
    const std::int64_t value = step == 0 ? x : std::min<std::int64_t>(below / step, 255);
    table[x] = static_cast<std::uint8_t>(value);
    below += counts[x];
  }
}

// Pillow's arithmetic, each step of which rounds to double.
void stretch(int low, int high, std::uint8_t *table) {
  const double scale = high > low ? 255.0 / (high - low) : 1.0;
  const double offset = high > low ? -low * scale : 0.0;
  for (int x = 0; x < 256; ++x) {
    const double value = std::clamp(x * scale + offset, 0.0, 255.0);
    table[x] = static_cast<std::uint8_t>(value);
  }
}

// The least and the greatest of each of kPeriod places that repeat, of rows of bytes.
constexpr int kPeriod = 96;  // of 1 or 3 channels, and whole vectors

DTSFLOW_INLINE void extremes(const View &view, std::uint8_t *low, std::uint8_t *high) {
  const int bytes = view.width * view.channels;
  for (int y = 0; y < view.height; ++y) {
    const std::uint8_t *const row = view.data + y * view.stride;
    int x = 0;
    for (; x + kPeriod <= bytes; x += kPeriod) {
      for (int i = 0; i < kPeriod; ++i) {
        low[i] = row[x + i] < low[i] ? row[x + i] : low[i];
        high[i] = row[x + i] > high[i] ? row[x + i] : high[i];
      }
    }
    for (int i = 0; x + i < bytes; ++i) {
      low[i] = row[x + i] < low[i] ? row[x + i] : low[i];
      high[i] = row[x + i] > high[i] ? row[x + i] : high[i];
    }
  }
}

#if DTSFLOW_X86
__attribute__((target("avx2"))) void extremes_avx2(const View &view, std::uint8_t *low,
                                                   std::uint8_t *high) {
  extremes(view, low, high);
}
#endif

}  // namespace

Status grayscale(View &view, const StepParams &params, StepScratch &scratch) {
  if (view.channels != 3) return Status::misfit;
  if (params.own[0] == 0) return Status::ok;
  View made;
  std::uint8_t *const to = scratch.images.next(view.height, view.width, 3, made);
  if (!to) return Status::no_memory;
#if DTSFLOW_X86
  if (cpu_level() >= CpuLevel::avx2) {
    gray_rows_avx2(view, to, made.stride);
    view = made;
    return Status::ok;
  }
#endif
  gray_rows<false>(view, to, made.stride);
  view = made;
  return Status::ok;
}

Status autocontrast(View &view, const StepParams &params, StepScratch &scratch) {
  const int channels = view.channels;
  if (channels != 1 && channels != 3) return Status::misfit;
  if (params.own[0] == 0) return Status::ok;
  alignas(32) std::uint8_t low[kPeriod], high[kPeriod] = {};
  std::fill_n(low, kPeriod, std::uint8_t{255});
#if DTSFLOW_X86
  if (cpu_level() >= CpuLevel::avx2) {
    extremes_avx2(view, low, high);
  } else {
    extremes(view, low, high);
  }
#else
  extremes(view, low, high);
#endif
  Tables tables;
  for (int c = 0; c < channels; ++c) {
    int least = 255, greatest = 0;
    for (int i = c; i < kPeriod; i += channels) {
      least = std::min<int>(least, low[i]);
      greatest = std::max<int>(greatest, high[i]);
    }
    stretch(least, greatest, tables.of[c]);
  }
  return by_tables(view, tables, scratch);
}

Status posterize(View &view, const StepParams &params, StepScratch &scratch) {
  const std::int32_t bits = params.own[0];
  if (bits < 0 || bits > 8) return Status::misfit;
  Tables tables;
  for (int x = 0; x < 256; ++x) tables.set_all(x, x & -(1 << (8 - bits)));
  return by_tables(view, tables, scratch);
}

Status solarize(View &view, const StepParams &params, StepScratch &scratch) {
  float threshold;
  std::memcpy(&threshold, &params.own[0], sizeof threshold);
  Tables tables;
  for (int x = 0; x < 256; ++x) {
    tables.set_all(x, static_cast<float>(x) < threshold ? x : 255 - x);
  }
  return by_tables(view, tables, scratch);
}

Status equalize(View &view, const StepParams &, StepScratch &scratch) {
  Tables tables;
  for (int c = 0; c < view.channels; ++c) {
    std::int64_t counts[256] = {};
    for (int y = 0; y < view.height; ++y) {
      const std::uint8_t *const row = view.data + y * view.stride + c;
      for (int x = 0; x < view.width; ++x) ++counts[row[x * view.channels]];
    }
    spread(counts, std::int64_t{view.height} * view.width, tables.of[c]);
  }
  return by_tables(view, tables, scratch);
}

}  // namespace dtsflow

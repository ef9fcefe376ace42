#include "jitter.hpp"

#include <algorithm>
#include <cstring>

#include "blend.hpp"
#include "rgb_block.hpp"

namespace dtsflow {
namespace {

enum class Change { brightness = 0, contrast = 1, saturation = 2, hue = 3 };

constexpr int kChanges = 4;

struct Deed {
  Change change;
  float factor;        // of all but hue
  std::int32_t other;  // the gray to mix with (contrast), the shift (hue)
};

DTSFLOW_INLINE void blend_all(RgbBlock &block, std::int32_t other, float factor) {
  for (std::int32_t *const plane : {block.r, block.g, block.b}) {
    for (int i = 0; i < RgbBlock::kPixels; ++i) plane[i] = blend(other, plane[i], factor);
  }
}

DTSFLOW_INLINE void saturate(RgbBlock &block, float factor) {
  for (int i = 0; i < RgbBlock::kPixels; ++i) {
    const std::int32_t r = block.r[i], g = block.g[i], b = block.b[i], gray = luma(r, g, b);
    block.r[i] = blend(gray, r, factor);
    block.g[i] = blend(gray, g, factor);
    block.b[i] = blend(gray, b, factor);
  }
}

// x div 255, for x below 65535.
DTSFLOW_INLINE std::int32_t over_255(std::int32_t x) { return (x * 257 + 257) >> 16; }

// All bits set where it holds, for compilers vectorise masks and not the logic of bools.
DTSFLOW_INLINE std::int32_t mask(bool holds) { return -static_cast<std::int32_t>(holds); }

DTSFLOW_INLINE std::int32_t select(std::int32_t where, std::int32_t a, std::int32_t b) {
  return (where & a) | (~where & b);
}

// Pillow's way to HSV of eight bits and back. Every number but the hue's quotients is a
// whole one that single precision holds; test_jitter.py has all colours.
DTSFLOW_INLINE void turn_hue(RgbBlock &block, std::int32_t shift) {
  for (int i = 0; i < RgbBlock::kPixels; ++i) {
    const std::int32_t r = block.r[i], g = block.g[i], b = block.b[i];
    const std::int32_t low = std::min(std::min(r, g), b), v = std::max(std::max(r, g), b);
    const std::int32_t middle = r + g + b - low - v, range = v - low;
    const std::int32_t red = mask(r == v), green = ~red & mask(g == v);
    const std::int32_t least_b = mask(b == low), least_r = ~least_b & mask(r == low);
    const float x = static_cast<float>(v - middle) / static_cast<float>(std::max(range, 1));
    // The hue in sixths is a whole number and x, added or taken away.
    const std::int32_t added = select(red, ~least_b, select(green, least_b, least_r));
    const std::int32_t base = select(least_b, 1, select(red, -1, select(least_r, 3, 5)));
    const float sign = static_cast<float>(select(added, 1, -1));
    const float turn = (static_cast<float>(base) + sign * x) / 6.0F;
    const float positive = turn + static_cast<float>(red & ~least_b & 1);
    const std::int32_t h = (static_cast<std::int32_t>(positive * 255.0F) + shift) & 255;
    const float saturation = static_cast<float>(range) / static_cast<float>(std::max(v, 1));
    const auto s = static_cast<std::int32_t>(saturation * 255.0F);
    const std::int32_t sector = over_255(6 * h), rest = 6 * h - 255 * sector;
    const std::int32_t part = select(-(sector & 1), rest, 255 - rest);
    // Rounded half up: no quotient ends in exactly one half.
    const std::int32_t p = over_255(v * (255 - s) + 127);
    const std::int32_t w =
        static_cast<std::int32_t>(static_cast<float>(v * (65025 - s * part) + 32512) / 65025.0F);
    const std::int32_t at0 = mask(sector == 0) | mask(sector == 6), at1 = mask(sector == 1);
    const std::int32_t at2 = mask(sector == 2), at3 = mask(sector == 3);
    const std::int32_t at4 = mask(sector == 4), at5 = mask(sector == 5);
    block.r[i] = select(at0 | at5, v, select(at1 | at4, w, p));
    block.g[i] = select(at1 | at2, v, select(at0 | at3, w, p));
    block.b[i] = select(at3 | at4, v, select(at2 | at5, w, p));
  }
}

DTSFLOW_INLINE void act(RgbBlock &block, const Deed &deed) {
  switch (deed.change) {
    case Change::brightness:
      return blend_all(block, 0, deed.factor);
    case Change::contrast:
      return blend_all(block, deed.other, deed.factor);
    case Change::saturation:
      return saturate(block, deed.factor);
    case Change::hue:
      return turn_hue(block, deed.other);
  }
}

// Do `count` deeds to all of `view`; into `out`, unless it is null. Answers the sum of the
// luma of what comes out, where that is asked for.
template <bool kVector>
DTSFLOW_INLINE std::int64_t pass(const View &view, const Deed *deeds, int count, bool summed,
                                 std::uint8_t *out, std::ptrdiff_t stride) {
  RgbBlock block;
  std::int64_t sum = 0;
  for (int y = 0; y < view.height; ++y) {
    const std::uint8_t *const from = view.data + y * view.stride;
    for (int x = 0; x < view.width; x += RgbBlock::kPixels) {
      const int pixels = std::min(RgbBlock::kPixels, view.width - x);
      load<kVector>(from + 3 * x, pixels, block);
      for (int i = 0; i < count; ++i) act(block, deeds[i]);
      std::int32_t part = 0;
      if (summed && pixels == RgbBlock::kPixels) {  // a fixed count is what vectorises
        for (int i = 0; i < RgbBlock::kPixels; ++i) part += luma(block.r[i], block.g[i], block.b[i]);
      } else if (summed) {
        for (int i = 0; i < pixels; ++i) part += luma(block.r[i], block.g[i], block.b[i]);
      }
      sum += part;
      if (out) store<kVector>(block, pixels, out + y * stride + 3 * x);
    }
  }
  return sum;
}

#if DTSFLOW_X86
__attribute__((target("avx2"))) std::int64_t pass_avx2(const View &view, const Deed *deeds, int count,
                                                       bool summed, std::uint8_t *out,
                                                       std::ptrdiff_t stride) {
  return pass<true>(view, deeds, count, summed, out, stride);
}
#endif

std::int64_t pass_rgb(const View &view, const Deed *deeds, int count, bool summed,
                      std::uint8_t *out, std::ptrdiff_t stride) {
#if DTSFLOW_X86
  if (cpu_level() >= CpuLevel::avx2) return pass_avx2(view, deeds, count, summed, out, stride);
#endif
  return pass<false>(view, deeds, count, summed, out, stride);
}

// The same of one channel: a table for all deeds that know no mean yet.
std::int64_t pass_gray(const View &view, const Deed *deeds, int count, bool summed,
                       std::uint8_t *out, std::ptrdiff_t stride) {
  std::uint8_t table[256];
  for (std::int32_t x = 0; x < 256; ++x) {
    std::int32_t value = x;
    for (int i = 0; i < count; ++i) value = blend(deeds[i].other, value, deeds[i].factor);
    table[x] = static_cast<std::uint8_t>(value);
  }
  std::int64_t sum = 0;
  for (int y = 0; y < view.height; ++y) {
    const std::uint8_t *const from = view.data + y * view.stride;
    for (int x = 0; summed && x < view.width; ++x) sum += table[from[x]];
    if (!out) continue;
    for (int x = 0; x < view.width; ++x) out[y * stride + x] = table[from[x]];
  }
  return sum;
}

// What to do, in order; -1 where the numbers make no sense.
int read(const StepParams &params, int channels, Deed *deeds) {
  int count = 0;
  for (int i = 0; i < kChanges; ++i) {
    const std::int32_t code = params.own[i];
    if (code < -1 || code >= kChanges) return -1;
    if (code < 0) continue;
    Deed &deed = deeds[count++];
    deed = {static_cast<Change>(code), 1.0F, 0};
    if (deed.change == Change::hue) {
      deed.other = params.own[kChanges + code];
      if (deed.other < 0 || deed.other > 255) return -1;
    } else {
      std::memcpy(&deed.factor, &params.own[kChanges + code], sizeof deed.factor);
      if (!is_factor(deed.factor)) return -1;
    }
    if (channels == 1 && deed.change == Change::hue) return -1;
    if (channels == 1 && deed.change == Change::saturation) --count;  // gray is its own luma
  }
  return count;
}

}  // namespace

Status jitter(View &view, const StepParams &params, StepScratch &scratch) {
  Deed deeds[kChanges];
  if (view.channels != 1 && view.channels != 3) return Status::misfit;
  const int count = read(params, view.channels, deeds);
  if (count < 0) return Status::misfit;
  const auto run = view.channels == 1 ? pass_gray : pass_rgb;
  const std::int64_t pixels = std::int64_t{view.height} * view.width;
  // Contrast needs the mean of the whole image as it then is, so a pass ends before it.
  int start = 0;
  for (int stop = 0; stop <= count; ++stop) {
    const bool is_last = stop == count;
    if (!is_last && deeds[stop].change != Change::contrast) continue;
    std::int64_t sum = 0;
    if (stop > start) {
      View made;
      std::uint8_t *const to = scratch.images.next(view.height, view.width, view.channels, made);
      if (!to) return Status::no_memory;
      sum = run(view, deeds + start, stop - start, !is_last, to, made.stride);
      view = made;
    } else if (!is_last) {
      sum = run(view, nullptr, 0, true, nullptr, 0);
    }
    if (is_last) break;
    deeds[stop].other = static_cast<std::int32_t>((2 * sum + pixels) / (2 * pixels));
    start = stop;
  }
  return Status::ok;
}

}  // namespace dtsflow

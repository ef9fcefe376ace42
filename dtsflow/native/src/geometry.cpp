#include "geometry.hpp"

#include <algorithm>
#include <cstring>

#include "cpu.hpp"
#if DTSFLOW_X86
#include <immintrin.h>
#endif

namespace dtsflow {
namespace {

constexpr int kPointBits = 24;
constexpr int kWeightBits = 11;
constexpr int kOne = 1 << kWeightBits;
constexpr int kRound = 1 << (2 * kWeightBits - 1);
// With steps and starts below these no point of an image of kMostSide overflows.
constexpr std::int64_t kMostStep = std::int64_t{1} << 37;
constexpr std::int64_t kMostStart = std::int64_t{1} << 61;

template <typename Own>
Own own(const StepParams &params) {
  static_assert(sizeof(Own) <= sizeof params.own);
  Own made;
  std::memcpy(&made, params.own, sizeof made);
  return made;
}

bool is_side(std::int32_t side) { return side >= 1 && side <= kMostSide; }

// `count` pixels of one colour.
void paint(std::uint8_t *to, std::int64_t count, int channels, const std::uint8_t *colour) {
  if (std::all_of(colour, colour + channels, [&](std::uint8_t level) { return level == *colour; })) {
    std::memset(to, *colour, static_cast<std::size_t>(count * channels));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i, to += channels) {
    for (int c = 0; c < channels; ++c) to[c] = colour[c];
  }
}

// Fill an image with one colour but for the `w` columns from `x` on of the `h` rows from
// `y` on, which are those of `view`.
void frame(const View &view, std::int64_t y, std::int64_t x, const std::uint8_t *colour,
           std::uint8_t *to, const View &made) {
  const int channels = view.channels;
  for (int row = 0; row < made.height; ++row, to += made.stride) {
    if (row < y || row >= y + view.height || view.width < 1) {
      paint(to, made.width, channels, colour);
      continue;
    }
    paint(to, x, channels, colour);
    std::memcpy(to + x * channels, view.data + (row - y) * view.stride,
                static_cast<std::size_t>(view.width) * static_cast<std::size_t>(channels));
    const std::int64_t end = x + view.width;
    paint(to + end * channels, made.width - end, channels, colour);
  }
}

View part(const View &view, std::int64_t y, std::int64_t x, std::int64_t h, std::int64_t w) {
  View made = view;
  made.data += y * view.stride + x * view.channels;
  made.height = static_cast<int>(h);
  made.width = static_cast<int>(w);
  return made;
}

// Which of `side` places a place shows, inside or beyond.
int source(std::int64_t place, int side, Border border) {
  if (border == Border::edge || side == 1) {
    return static_cast<int>(std::clamp<std::int64_t>(place, 0, side - 1));
  }
  const std::int64_t last = border == Border::symmetric ? 2 * std::int64_t{side} - 1 : 2 * std::int64_t{side} - 2;
  const std::int64_t period = border == Border::symmetric ? last + 1 : last;
  place %= period;
  if (place < 0) place += period;
  return static_cast<int>(std::min(place, last - place));
}

Status with_colour(View &view, const Frame &f, Images &images) {
  View made;
  std::uint8_t *const to = images.next(f.h, f.w, view.channels, made);
  if (!to) return Status::no_memory;
  const std::int64_t top = std::clamp<std::int64_t>(f.y, 0, view.height);
  const std::int64_t left = std::clamp<std::int64_t>(f.x, 0, view.width);
  const std::int64_t bottom = std::clamp<std::int64_t>(std::int64_t{f.y} + f.h, top, view.height);
  const std::int64_t right = std::clamp<std::int64_t>(std::int64_t{f.x} + f.w, left, view.width);
  frame(part(view, top, left, bottom - top, right - left), top - f.y, left - f.x, f.fill, to, made);
  view = made;
  return Status::ok;
}

Status with_pixels(View &view, const Frame &f, StepScratch &scratch) {
  View made;
  const int channels = view.channels;
  std::uint8_t *to = scratch.images.next(f.h, f.w, channels, made);
  int *const columns = scratch.columns.room(static_cast<std::size_t>(f.w));
  if (!to || !columns) return Status::no_memory;
  for (int x = 0; x < f.w; ++x) columns[x] = source(std::int64_t{f.x} + x, view.width, f.border);
  const auto first = static_cast<int>(std::clamp<std::int64_t>(-std::int64_t{f.x}, 0, f.w));
  const auto last = static_cast<int>(std::clamp<std::int64_t>(std::int64_t{view.width} - f.x, first, f.w));
  for (int y = 0; y < f.h; ++y, to += made.stride) {
    const std::uint8_t *const from =
        view.data + source(std::int64_t{f.y} + y, view.height, f.border) * view.stride;
    const auto copy = [&](int x) {
      for (int c = 0; c < channels; ++c) to[x * channels + c] = from[columns[x] * channels + c];
    };
    for (int x = 0; x < first; ++x) copy(x);
    if (first < last) {
      std::memcpy(to + first * channels, from + columns[first] * channels,
                  static_cast<std::size_t>(last - first) * static_cast<std::size_t>(channels));
    }
    for (int x = last; x < f.w; ++x) copy(x);
  }
  view = made;
  return Status::ok;
}

std::int64_t floor_div(std::int64_t a, std::int64_t positive) {
  return a / positive - (a % positive < 0);
}

// The places first <= x < last.
struct Range {
  std::int64_t first, last;

  // Keep those for which low <= start + step * x < high; where there is none, the empty
  // range at the end, so that what lies before and after it is always within the old one.
  void keep(std::int64_t start, std::int64_t step, std::int64_t low, std::int64_t high) {
    std::int64_t from = first, to = last;
    if (step == 0) {
      if (start < low || start >= high) to = from;
    } else if (step > 0) {
      from = std::max(from, -floor_div(start - low, step));
      to = std::min(to, -floor_div(start - high, step));
    } else {
      from = std::max(from, floor_div(start - high, -step) + 1);
      to = std::min(to, floor_div(start - low, -step) + 1);
    }
    first = from < to ? from : last;
    last = from < to ? to : last;
  }
};

// The places around a point on an axis, and the weight of the second.
struct Pair {
  std::int64_t low, high;
  int weight;

  Pair(std::int64_t point, int side) {
    constexpr int kSpare = kPointBits - kWeightBits;
    const std::int64_t place = point >> kPointBits;
    const auto rest = static_cast<int>(point & ((1 << kPointBits) - 1));
    weight = (rest + (1 << (kSpare - 1))) >> kSpare;
    low = std::clamp<std::int64_t>(place, 0, side - 1);
    high = std::clamp<std::int64_t>(place + 1, 0, side - 1);
  }
};

// Along a row of the output: the point of its pixel 0, and what each pixel adds.
struct Line {
  std::int64_t x, y, step_x, step_y;
};

// Three channels are copied as four, which may read and write a byte behind the last pixel;
// the next pixel, or the next row, overwrites it.
template <int kChannels>
void nearest(const View &view, const Line &line, Range range, std::uint8_t *out) {
  const int channels = kChannels ? kChannels : view.channels;
  std::int64_t x = line.x + line.step_x * range.first, y = line.y + line.step_y * range.first;
  for (std::int64_t i = range.first; i < range.last; ++i, x += line.step_x, y += line.step_y) {
    const std::uint8_t *const from =
        view.data + (y >> kPointBits) * view.stride + (x >> kPointBits) * channels;
    if constexpr (kChannels == 3) {
      std::memcpy(out + i * 3, from, 4);
    } else {
      for (int c = 0; c < channels; ++c) out[i * channels + c] = from[c];
    }
  }
}

void bilinear(const View &view, const Line &line, Range range, std::uint8_t *out) {
  const int channels = view.channels;
  std::int64_t x = line.x + line.step_x * range.first, y = line.y + line.step_y * range.first;
  for (std::int64_t i = range.first; i < range.last; ++i, x += line.step_x, y += line.step_y) {
    const Pair across(x, view.width), down(y, view.height);
    const std::uint8_t *const above = view.data + down.low * view.stride;
    const std::uint8_t *const below = view.data + down.high * view.stride;
    const std::int64_t left = across.low * channels, right = across.high * channels;
    for (int c = 0; c < channels; ++c) {
      const int upper = above[left + c] * (kOne - across.weight) + above[right + c] * across.weight;
      const int lower = below[left + c] * (kOne - across.weight) + below[right + c] * across.weight;
      const int sum = upper * (kOne - down.weight) + lower * down.weight;
      out[i * channels + c] = static_cast<std::uint8_t>((sum + kRound) >> (2 * kWeightBits));
    }
  }
}

#if DTSFLOW_X86
// Where all four pixels are in the image. Reads 8 bytes from the left ones on, and writes
// a byte behind the last pixel, which whoever comes next overwrites.
__attribute__((target("avx2"))) void bilinear_rgb(const View &view, const Line &line, Range range,
                                                  std::uint8_t *out) {
  constexpr int kSpare = kPointBits - kWeightBits;
  constexpr int kMask = (1 << kPointBits) - 1;
  // Of two pixels r g b: r0 r1 g0 g1 b0 b1, each widened to 16 bits.
  const __m128i pair = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  const __m128i first_bytes = _mm_setr_epi8(0, 4, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i round = _mm_set1_epi32(kRound);
  std::int64_t x = line.x + line.step_x * range.first, y = line.y + line.step_y * range.first;
  for (std::int64_t i = range.first; i < range.last; ++i, x += line.step_x, y += line.step_y) {
    const int wx = ((static_cast<int>(x) & kMask) + (1 << (kSpare - 1))) >> kSpare;
    const int wy = ((static_cast<int>(y) & kMask) + (1 << (kSpare - 1))) >> kSpare;
    const std::uint8_t *const from = view.data + (y >> kPointBits) * view.stride + (x >> kPointBits) * 3;
    const auto load = [&](const std::uint8_t *at) __attribute__((target("avx2"))) {
      return _mm_shuffle_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(at)), pair);
    };
    const __m128i across = _mm_set1_epi32((kOne - wx) | wx << 16);
    const __m128i upper = _mm_madd_epi16(load(from), across);
    const __m128i lower = _mm_madd_epi16(load(from + view.stride), across);
    const __m128i sum = _mm_add_epi32(_mm_mullo_epi32(upper, _mm_set1_epi32(kOne - wy)),
                                      _mm_mullo_epi32(lower, _mm_set1_epi32(wy)));
    const __m128i value = _mm_srli_epi32(_mm_add_epi32(sum, round), 2 * kWeightBits);
    const int pixel = _mm_cvtsi128_si32(_mm_shuffle_epi8(value, first_bytes));
    std::memcpy(out + 3 * i, &pixel, sizeof pixel);
  }
}
#endif

// One row of a warp, where all points are in the image.
void sample(const View &view, const Map &map, const Line &line, Range range, std::uint8_t *out) {
  if (map.sampling == Sampling::nearest) {
    if (view.channels == 3) return nearest<3>(view, line, range, out);
    if (view.channels == 1) return nearest<1>(view, line, range, out);
    return nearest<0>(view, line, range, out);
  }
  const std::int64_t half = map.sampling == Sampling::bilinear ? std::int64_t{1} << (kPointBits - 1) : 0;
  const Line moved{line.x - half, line.y - half, line.step_x, line.step_y};
#if DTSFLOW_X86
  if (view.channels == 3 && cpu_level() >= CpuLevel::avx2) {
    Range inner = range;  // without the edges, which are repeated
    inner.keep(moved.x, moved.step_x, 0, (std::int64_t{view.width} - 1) << kPointBits);
    inner.keep(moved.y, moved.step_y, 0, (std::int64_t{view.height} - 1) << kPointBits);
    bilinear(view, moved, {range.first, inner.first}, out);
    bilinear_rgb(view, moved, inner, out);
    return bilinear(view, moved, {inner.last, range.last}, out);
  }
#endif
  bilinear(view, moved, range, out);
}

bool is_sane(const Map &map) {
  const auto within = [](std::int64_t value, std::int64_t most) { return value >= -most && value <= most; };
  return within(map.xx, kMostStep) && within(map.xy, kMostStep) && within(map.yx, kMostStep) &&
         within(map.yy, kMostStep) && within(map.x0, kMostStart) && within(map.y0, kMostStart) &&
         map.sampling >= Sampling::nearest && map.sampling <= Sampling::corner;
}

}  // namespace

Status flip_rows(View &view, const StepParams &params, StepScratch &) {
  if (params.y != 0 && view.height > 0) {
    view.data += (view.height - 1) * view.stride;
    view.stride = -view.stride;
  }
  return Status::ok;
}

Status place(View &view, const StepParams &params, StepScratch &scratch) {
  const auto f = own<Frame>(params);
  if (!is_side(f.h) || !is_side(f.w) || f.border < Border::constant || f.border > Border::symmetric) {
    return Status::misfit;
  }
  return f.border == Border::constant ? with_colour(view, f, scratch.images)
                                      : with_pixels(view, f, scratch);
}

Status warp(View &view, const StepParams &params, StepScratch &scratch) {
  const auto map = own<Map>(params);
  if (!is_sane(map)) return Status::misfit;
  View made;
  const int channels = view.channels;
  std::uint8_t *out = scratch.images.next(view.height, view.width, channels, made);
  if (!out) return Status::no_memory;
  for (std::int64_t y = 0; y < made.height; ++y, out += made.stride) {
    const Line line{map.xy * y + map.x0, map.yy * y + map.y0, map.xx, map.yx};
    Range range{0, made.width};
    range.keep(line.x, line.step_x, 0, std::int64_t{view.width} << kPointBits);
    range.keep(line.y, line.step_y, 0, std::int64_t{view.height} << kPointBits);
    paint(out, range.first, channels, map.fill);
    sample(view, map, line, range, out);
    paint(out + range.last * channels, made.width - range.last, channels, map.fill);
  }
  view = made;
  return Status::ok;
}

Status rescale(View &view, const StepParams &params, StepScratch &scratch) {
  const auto [h, w, antialias] = own<Rescaling>(params);
  if (!is_side(h) || !is_side(w)) return Status::misfit;
  View scaled;
  std::uint8_t *const to = scratch.images.next(h, w, view.channels, scaled);
  if (!to) return Status::no_memory;
  const Status status =
      resample(view, h, w, antialias != 0, to, scaled.stride, scratch.resample);
  if (status != Status::ok) return status;
  const int height = std::min(h, view.height), width = std::min(w, view.width);
  const View middle = part(scaled, (h - height) / 2, (w - width) / 2, height, width);
  if (height == view.height && width == view.width) {
    view = middle;
    return Status::ok;
  }
  View made;
  std::uint8_t *const out = scratch.images.next(view.height, view.width, view.channels, made);
  if (!out) return Status::no_memory;
  constexpr std::uint8_t kBlack[4] = {};
  frame(middle, (view.height - height) / 2, (view.width - width) / 2, kBlack, out, made);
  view = made;
  return Status::ok;
}

}  // namespace dtsflow

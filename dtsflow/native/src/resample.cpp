#include "resample.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu.hpp"
#if DTSFLOW_X86
#include <immintrin.h>
#endif

namespace dtsflow {
namespace {

constexpr int kBits = 22;  // of a weight; 8 for the pixel leave two of 32 for sums
constexpr int kHalf = 1 << (kBits - 1);
constexpr int kSplit = 11;  // vector code multiplies 16-bit numbers: high and low part
constexpr int kGroup = 4;   // taps that vector code takes at a time

// Pillow's BILINEAR: a triangle as wide as the scale, its weights computed in double
// precision, normalised, and rounded half up to 22 bits. The order of operations is
// part of the definition, since each rounds.
bool plan_axis(Axis &axis, int size, int out_size) {
  const double scale = static_cast<double>(size) / out_size;
  const double support = std::max(scale, 1.0);
  const int reach = static_cast<int>(std::ceil(support)) * 2 + 1;
  axis.taps = (reach + kGroup - 1) / kGroup * kGroup;
  const std::size_t cells = static_cast<std::size_t>(out_size) * static_cast<std::size_t>(axis.taps);
  int *const first = axis.first.room(static_cast<std::size_t>(out_size));
  int *const count = axis.count.room(static_cast<std::size_t>(out_size));
  std::int32_t *const weights = axis.weights.room(cells);
  std::int16_t *const split = axis.split.room(2 * cells);
  double *const exact = axis.exact.room(static_cast<std::size_t>(reach));
  if (!first || !count || !weights || !split || !exact) return false;
  const double narrow = 1.0 / support;
  for (int i = 0; i < out_size; ++i) {
    const double center = (i + 0.5) * scale;
    const int low = std::max(static_cast<int>(center - support + 0.5), 0);
    const int high = std::min(static_cast<int>(center + support + 0.5), size);
    double sum = 0.0;
    for (int t = 0; t < high - low; ++t) {
      const double distance = std::fabs((t + low - center + 0.5) * narrow);
      exact[t] = distance < 1.0 ? 1.0 - distance : 0.0;
      sum += exact[t];
    }
    std::int32_t *const row = weights + static_cast<std::ptrdiff_t>(i) * axis.taps;
    std::int16_t *const parts = split + static_cast<std::ptrdiff_t>(i) * axis.taps * 2;
    for (int t = 0; t < axis.taps; ++t) {
      const bool used = t < high - low;
      const double weight = used ? (sum != 0.0 ? exact[t] / sum : exact[t]) : 0.0;
      row[t] = static_cast<std::int32_t>(0.5 + weight * (1 << kBits));
      std::int16_t *const group = parts + t / kGroup * 2 * kGroup + t % kGroup;
      group[0] = static_cast<std::int16_t>(row[t] & ((1 << kSplit) - 1));
      group[kGroup] = static_cast<std::int16_t>(row[t] >> kSplit);
    }
    first[i] = low;
    count[i] = high - low;
  }
  return true;
}

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp((sum + kHalf) >> kBits, 0, 255));
}

void row_across(const std::uint8_t *source, int channels, const Axis &axis, int width,
                std::uint8_t *out) {
  const int *const first = axis.first.get(), *const count = axis.count.get();
  const std::int32_t *const weights = axis.weights.get();
  for (int i = 0; i < width; ++i) {
    const std::uint8_t *const from = source + static_cast<std::ptrdiff_t>(first[i]) * channels;
    const std::int32_t *const row = weights + static_cast<std::ptrdiff_t>(i) * axis.taps;
    for (int c = 0; c < channels; ++c) {
      std::int32_t sum = 0;
      for (int t = 0; t < count[i]; ++t) sum += row[t] * from[t * channels + c];
      out[i * channels + c] = rounded(sum);
    }
  }
}

void row_down(const std::uint8_t *source, std::ptrdiff_t stride, int taps,
              const std::int32_t *weights, int bytes, std::uint8_t *out) {
  for (int i = 0; i < bytes; ++i) {
    std::int32_t sum = 0;
    for (int t = 0; t < taps; ++t) sum += weights[t] * source[t * stride + i];
    out[i] = rounded(sum);
  }
}

#if DTSFLOW_X86
#define DTSFLOW_AVX2 __attribute__((target("avx2")))

// (high << 11) + low, rounded and shifted; both hold sums of products with 11-bit weights.
DTSFLOW_AVX2 inline __m256i joined(__m256i low, __m256i high) {
  const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, kSplit), low);
  return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(kHalf)), kBits);
}

// One pixel (3 bytes) to each of four rows, from vectors of (row a, row b) sums.
DTSFLOW_AVX2 inline void store_rgb(__m256i first, __m256i second, std::uint8_t *out,
                                   std::ptrdiff_t stride, bool is_last) {
  const __m256i words = _mm256_packs_epi32(first, second);
  const __m256i bytes = _mm256_packus_epi16(words, words);
  const __m128i even = _mm256_castsi256_si128(bytes), odd = _mm256_extracti128_si256(bytes, 1);
  const int pixels[4] = {_mm_cvtsi128_si32(even), _mm_cvtsi128_si32(odd),
                         _mm_extract_epi32(even, 1), _mm_extract_epi32(odd, 1)};
  for (int r = 0; r < 4; ++r) {
    if (is_last) {
      std::memcpy(out + r * stride, &pixels[r], 3);  // behind the last may lie another row
    } else {
      std::memcpy(out + r * stride, &pixels[r], 4);  // the next pixel overwrites the fourth byte
    }
  }
}

// Both lanes of `a` added in lane 0, those of `b` in lane 1.
DTSFLOW_AVX2 inline __m256i lanes_added(__m256i a, __m256i b) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                          _mm256_permute2x128_si256(a, b, 0x31));
}

// Four rows at once, so that each weight is loaded once for all of them. Reads up to 16
// bytes from any group of taps on.
DTSFLOW_AVX2 void rows_across_rgb(const std::uint8_t *const rows[4], int taps, int width,
                                  const int *first, const int *count, const std::int16_t *split,
                                  std::uint8_t *out, std::ptrdiff_t out_stride) {
  // Of four pixels r g b, lane 0 takes pixels 0 and 1, lane 1 pixels 2 and 3: r0 r1 g0 g1
  // b0 b1, each widened to 16 bits.
  const __m256i pair = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6,
                                        -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i to_low = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const __m256i to_high = _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3);
  // Rounding is added once, in lane 0.
  const __m256i half = _mm256_setr_epi32(kHalf, kHalf, kHalf, kHalf, 0, 0, 0, 0);
  for (int i = 0; i < width; ++i) {
    std::ptrdiff_t at = static_cast<std::ptrdiff_t>(first[i]) * 3;
    const std::int16_t *parts = split + static_cast<std::ptrdiff_t>(i) * taps * 2;
    __m256i low[4], high[4];
    for (int r = 0; r < 4; ++r) {
      low[r] = half;
      high[r] = _mm256_setzero_si256();
    }
    for (int t = 0; t < count[i]; t += kGroup, at += 3 * kGroup, parts += 2 * kGroup) {
      // Weights 0 1 to every pair of lane 0, weights 2 3 to every pair of lane 1.
      const __m256i both = _mm256_broadcastsi128_si256(
          _mm_loadu_si128(reinterpret_cast<const __m128i *>(parts)));
      const __m256i w_low = _mm256_permutevar8x32_epi32(both, to_low);
      const __m256i w_high = _mm256_permutevar8x32_epi32(both, to_high);
      for (int r = 0; r < 4; ++r) {
        const __m256i pixels = _mm256_shuffle_epi8(
            _mm256_broadcastsi128_si256(
                _mm_loadu_si128(reinterpret_cast<const __m128i *>(rows[r] + at))),
            pair);
        low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(pixels, w_low));
        high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(pixels, w_high));
      }
    }
    __m256i sums[2];
    for (int k = 0; k < 2; ++k) {
      const __m256i l = lanes_added(low[2 * k], low[2 * k + 1]);
      const __m256i h = lanes_added(high[2 * k], high[2 * k + 1]);
      sums[k] = _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(h, kSplit), l), kBits);
    }
    store_rgb(sums[0], sums[1], out + 3 * i, out_stride, i + 1 == width);
  }
}

// Reads and writes whole steps of 16 bytes, up to 15 behind the last.
DTSFLOW_AVX2 void row_down_avx2(const std::uint8_t *source, std::ptrdiff_t stride, int taps,
                                const std::int32_t *weights, int bytes, std::uint8_t *out) {
  for (int i = 0; i < bytes; i += 16) {
    __m256i low0 = _mm256_setzero_si256(), low1 = low0, high0 = low0, high1 = low0;
    for (int t = 0; t < taps; t += 2) {
      const bool alone = t + 1 == taps;
      const std::int32_t w0 = weights[t], w1 = alone ? 0 : weights[t + 1];
      const __m128i row0 =
          _mm_loadu_si128(reinterpret_cast<const __m128i *>(source + t * stride + i));
      const __m128i row1 = alone ? _mm_setzero_si128()
                                 : _mm_loadu_si128(reinterpret_cast<const __m128i *>(
                                       source + (t + 1) * stride + i));
      constexpr int kMask = (1 << kSplit) - 1;
      const __m256i w_low = _mm256_set1_epi32((w0 & kMask) | (w1 & kMask) << 16);
      const __m256i w_high = _mm256_set1_epi32((w0 >> kSplit) | (w1 >> kSplit) << 16);
      const __m256i pairs0 = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(row0, row1));
      const __m256i pairs1 = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(row0, row1));
      low0 = _mm256_add_epi32(low0, _mm256_madd_epi16(pairs0, w_low));
      low1 = _mm256_add_epi32(low1, _mm256_madd_epi16(pairs1, w_low));
      high0 = _mm256_add_epi32(high0, _mm256_madd_epi16(pairs0, w_high));
      high1 = _mm256_add_epi32(high1, _mm256_madd_epi16(pairs1, w_high));
    }
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(joined(low0, high0), joined(low1, high1)), 0b11011000);
    const __m128i packed = _mm_packus_epi16(_mm256_castsi256_si128(words),
                                            _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out + i), packed);
  }
}

// Sums of two neighbouring pixels, three at a time. Reads 8 bytes from the first one on:
// the last pixel's neighbour has no weight. Writes four bytes behind the last sum.
DTSFLOW_AVX2 void plain_across_rgb(const std::uint8_t *source, const int *left,
                                   const std::int32_t *weight, int width, std::int32_t *sums) {
  const __m128i pair =
      _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  for (int i = 0; i < width; ++i) {
    const std::uint8_t *const from = source + static_cast<std::ptrdiff_t>(left[i]) * 3;
    const __m128i pixels =
        _mm_shuffle_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)), pair);
    const __m128i weights = _mm_set1_epi32(((1 << kSplit) - weight[i]) | weight[i] << 16);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(sums + 3 * i), _mm_madd_epi16(pixels, weights));
  }
}

// Reads and writes whole steps of eight numbers, up to seven behind the last.
DTSFLOW_AVX2 void plain_down(const std::int32_t *above, const std::int32_t *below,
                             std::int32_t weight, int count, std::uint8_t *out) {
  const __m256i first = _mm256_set1_epi32((1 << kSplit) - weight);
  const __m256i second = _mm256_set1_epi32(weight);
  for (int i = 0; i < count; i += 8) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(above + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(below + i));
    const __m256i sum =
        _mm256_add_epi32(_mm256_mullo_epi32(a, first), _mm256_mullo_epi32(b, second));
    const __m256i value =
        _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(kHalf)), kBits);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(value),
                                           _mm256_extracti128_si256(value, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i *>(out + i), _mm_packus_epi16(words, words));
  }
}
#endif

// Scale the width of all rows into `out`, which is scratch.
void across(const View &view, const Axis &axis, int width, std::uint8_t *out,
            std::ptrdiff_t out_stride) {
  const int *const first = axis.first.get(), *const count = axis.count.get();
  int row = 0;
#if DTSFLOW_X86
  // The view is padded scratch where it has three channels: see Program::run.
  if (view.channels == 3 && cpu_level() >= CpuLevel::avx2) {
    const std::int16_t *const split = axis.split.get();
    for (; row + 4 <= view.height; row += 4) {
      const std::uint8_t *const from = view.data + row * view.stride;
      const std::uint8_t *const rows[4] = {from, from + view.stride, from + 2 * view.stride,
                                           from + 3 * view.stride};
      rows_across_rgb(rows, axis.taps, width, first, count, split, out + row * out_stride,
                      out_stride);
    }
  }
#endif
  for (; row < view.height; ++row) {
    row_across(view.data + row * view.stride, view.channels, axis, width, out + row * out_stride);
  }
}

// Scale the height of rows of `bytes` bytes into `out`, which is scratch.
void down(const std::uint8_t *source, std::ptrdiff_t stride, int height, int bytes, const Axis &axis,
          std::uint8_t *out, std::ptrdiff_t out_stride) {
  for (int i = 0; i < height; ++i) {
    const std::uint8_t *const from = source + axis.first.get()[i] * stride;
    const std::int32_t *const row = axis.weights.get() + static_cast<std::ptrdiff_t>(i) * axis.taps;
    const int taps = axis.count.get()[i];
#if DTSFLOW_X86
    if (cpu_level() >= CpuLevel::avx2) {
      row_down_avx2(from, stride, taps, row, bytes, out + i * out_stride);
      continue;
    }
#endif
    row_down(from, stride, taps, row, bytes, out + i * out_stride);
  }
}

// One pass each; an axis that keeps its size needs none. `out` is scratch.
Status scale_width(const View &view, int width, std::uint8_t *out, std::ptrdiff_t out_stride,
                   Axis &axis) {
  if (!plan_axis(axis, view.width, width)) return Status::no_memory;
  across(view, axis, width, out, out_stride);
  return Status::ok;
}

Status scale_height(const View &view, int height, std::uint8_t *out, std::ptrdiff_t out_stride,
                    Axis &axis) {
  if (!plan_axis(axis, view.height, height)) return Status::no_memory;
  down(view.data, view.stride, height, view.width * view.channels, axis, out, out_stride);
  return Status::ok;
}

void copy(const View &view, std::uint8_t *out, std::ptrdiff_t out_stride) {
  const auto bytes = static_cast<std::size_t>(view.width) * static_cast<std::size_t>(view.channels);
  for (int i = 0; i < view.height; ++i) {
    std::memcpy(out + i * out_stride, view.data + i * view.stride, bytes);
  }
}

Status antialiased(const View &view, int height, int width, std::uint8_t *out,
                   std::ptrdiff_t out_stride, ResampleScratch &scratch) {
  const bool wide = width != view.width, high = height != view.height;
  if (!wide && !high) {
    copy(view, out, out_stride);
    return Status::ok;
  }
  if (!high) return scale_width(view, width, out, out_stride, scratch.across);
  if (!wide) return scale_height(view, height, out, out_stride, scratch.down);
  // The order is part of the definition, since each pass rounds: see po/geometry.py.
  const bool height_first =
      height < view.height &&
      std::int64_t{view.height} - height > 2 * (std::int64_t{view.width} - width);
  View middle = view;
  (height_first ? middle.height : middle.width) = height_first ? height : width;
  middle.stride = (static_cast<std::ptrdiff_t>(middle.width) * view.channels + 63) / 64 * 64;
  std::uint8_t *const between =
      scratch.between.room(static_cast<std::size_t>(middle.stride * middle.height));
  if (!between) return Status::no_memory;
  middle.data = between;
  const Status status =
      height_first ? scale_height(view, height, between, middle.stride, scratch.down)
                   : scale_width(view, width, between, middle.stride, scratch.across);
  if (status != Status::ok) return status;
  return height_first ? scale_width(middle, width, out, out_stride, scratch.across)
                      : scale_height(middle, height, out, out_stride, scratch.down);
}

// The two neighbours of each output place, and the weight of the second in 11 bits.
bool plan_plain(Axis &axis, int size, int out_size) {
  int *const low = axis.first.room(static_cast<std::size_t>(out_size));
  std::int32_t *const weight = axis.weights.room(static_cast<std::size_t>(out_size));
  if (!low || !weight) return false;
  const std::int64_t unit = 2 * std::int64_t{out_size};
  for (int i = 0; i < out_size; ++i) {
    const std::int64_t place = std::clamp<std::int64_t>((2 * std::int64_t{i} + 1) * size - out_size,
                                                        0, (size - 1) * unit);
    low[i] = static_cast<int>(place / unit);
    weight[i] = static_cast<std::int32_t>(((place % unit) * (2 << kSplit) + unit) / (2 * unit));
  }
  return true;
}

Status plain(const View &view, int height, int width, std::uint8_t *out, std::ptrdiff_t out_stride,
             ResampleScratch &scratch) {
  Axis &x = scratch.across, &y = scratch.down;
  if (!plan_plain(x, view.width, width) || !plan_plain(y, view.height, height)) {
    return Status::no_memory;
  }
  const int channels = view.channels, bytes = width * channels;
  const std::ptrdiff_t stride = (bytes + 15) / 16 * 16 + 16;  // room for the vector code's excess
  std::int32_t *const sums = scratch.sums.room(2 * static_cast<std::size_t>(stride));
  if (!sums) return Status::no_memory;
  const int *const left = x.first.get(), *const above = y.first.get();
  const std::int32_t *const wx = x.weights.get(), *const wy = y.weights.get();
  constexpr int kOne = 1 << kSplit;
#if DTSFLOW_X86
  const bool is_vector = cpu_level() >= CpuLevel::avx2;
#endif
  // Two rows of horizontal sums, kept while the next output row needs the same ones.
  std::int32_t *rows[2] = {sums, sums + stride};
  int held[2] = {-1, -1};
  const auto sum_row = [&](int source_row, std::int32_t *to) {
    const std::uint8_t *const from = view.data + source_row * view.stride;
#if DTSFLOW_X86
    if (is_vector && channels == 3) {
      plain_across_rgb(from, left, wx, width, to);
      return;
    }
#endif
    for (int i = 0; i < width; ++i) {
      const std::uint8_t *const a = from + static_cast<std::ptrdiff_t>(left[i]) * channels;
      const std::uint8_t *const b =
          from + static_cast<std::ptrdiff_t>(std::min(left[i] + 1, view.width - 1)) * channels;
      for (int c = 0; c < channels; ++c) to[i * channels + c] = a[c] * (kOne - wx[i]) + b[c] * wx[i];
    }
  };
  for (int i = 0; i < height; ++i) {
    const int wanted[2] = {above[i], std::min(above[i] + 1, view.height - 1)};
    if (held[1] == wanted[0]) {
      std::swap(rows[0], rows[1]);
      std::swap(held[0], held[1]);
    }
    for (int k = 0; k < 2; ++k) {
      if (held[k] != wanted[k]) sum_row(wanted[k], rows[k]);
      held[k] = wanted[k];
    }
    std::uint8_t *const to = out + i * out_stride;
#if DTSFLOW_X86
    if (is_vector) {
      plain_down(rows[0], rows[1], wy[i], bytes, to);
      continue;
    }
#endif
    for (int j = 0; j < bytes; ++j) {
      const std::int32_t sum = rows[0][j] * (kOne - wy[i]) + rows[1][j] * wy[i];
      to[j] = static_cast<std::uint8_t>((sum + kHalf) >> kBits);
    }
  }
  return Status::ok;
}

}  // namespace

Status resample(const View &view, int height, int width, bool antialias, std::uint8_t *out,
                std::ptrdiff_t out_stride, ResampleScratch &scratch) {
  return antialias ? antialiased(view, height, width, out, out_stride, scratch)
                   : plain(view, height, width, out, out_stride, scratch);
}

}  // namespace dtsflow

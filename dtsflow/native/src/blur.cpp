#include "blur.hpp"

#include <cstring>

#include "cpu.hpp"
#if DTSFLOW_X86
#include <immintrin.h>
#endif

namespace dtsflow {
namespace {

constexpr int kMostRadius = 29;
constexpr std::int32_t kOne = 1 << 14;
// Between the passes a pixel has eight more bits, less 2^15, so that it fits an int16.
constexpr int kFirstShift = 6, kSecondShift = 22;
constexpr std::int32_t kFirstBias = (1 << (kFirstShift - 1)) - (1 << (15 + kFirstShift));
constexpr std::int32_t kSecondBias = (1 << 29) + (1 << (kSecondShift - 1));

struct Weights {
  int radius;
  std::int16_t of[kMostRadius + 1];
};

bool read(const StepParams &params, Weights &weights) {
  static_assert(sizeof params.own == sizeof(std::int32_t) + sizeof weights.of);
  weights.radius = params.own[0];
  if (weights.radius < 0 || weights.radius > kMostRadius) return false;
  std::memcpy(weights.of, &params.own[1], sizeof weights.of);
  std::int32_t sum = 0;
  for (int k = 0; k <= weights.radius; ++k) {
    if (weights.of[k] < 0) return false;
    sum += k == 0 ? weights.of[k] : 2 * weights.of[k];
  }
  return sum == kOne;
}

// Place `i` of `size` that go back and forth for ever.
int reflected(int i, int size) {
  if (size == 1) return 0;
  const int period = 2 * (size - 1);
  i %= period;
  if (i < 0) i += period;
  return i < size ? i : period - i;
}

// Portable code takes as many at a time, which compilers vectorise; it reads and writes up
// to one less behind the last.
constexpr int kBlock = 32;

void down_portable(const std::uint8_t *const *rows, const Weights &weights, int bytes,
                   std::int16_t *line) {
  const int radius = weights.radius;
  for (int i = 0; i < bytes; i += kBlock) {
    std::int32_t sums[kBlock];
    for (int j = 0; j < kBlock; ++j) sums[j] = kFirstBias + weights.of[0] * rows[radius][i + j];
    for (int k = 1; k <= radius; ++k) {
      const std::uint8_t *const above = rows[radius - k] + i, *const below = rows[radius + k] + i;
      for (int j = 0; j < kBlock; ++j) sums[j] += weights.of[k] * (above[j] + below[j]);
    }
    for (int j = 0; j < kBlock; ++j) {
      line[i + j] = static_cast<std::int16_t>(sums[j] >> kFirstShift);
    }
  }
}

void across_portable(const std::int16_t *line, const Weights &weights, int channels, int bytes,
                     std::uint8_t *out) {
  for (int i = 0; i < bytes; i += kBlock) {
    std::int32_t sums[kBlock];
    for (int j = 0; j < kBlock; ++j) sums[j] = kSecondBias + weights.of[0] * line[i + j];
    for (int k = 1; k <= weights.radius; ++k) {
      const std::int16_t *const left = line + i - static_cast<std::ptrdiff_t>(k) * channels;
      const std::int16_t *const right = line + i + static_cast<std::ptrdiff_t>(k) * channels;
      for (int j = 0; j < kBlock; ++j) sums[j] += weights.of[k] * (left[j] + right[j]);
    }
    for (int j = 0; j < kBlock; ++j) {
      out[i + j] = static_cast<std::uint8_t>(sums[j] >> kSecondShift);
    }
  }
}

#if DTSFLOW_X86
#define DTSFLOW_AVX2 __attribute__((target("avx2")))

DTSFLOW_AVX2 inline __m256i pixels(const std::uint8_t *from) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
}

DTSFLOW_AVX2 inline __m256i numbers(const std::int16_t *from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}

struct Sums {
  __m256i low, high;
};

// Adds a * wa + b * wb of 16 numbers each.
DTSFLOW_AVX2 inline void add(Sums &sums, __m256i a, __m256i b, std::int16_t wa, std::int16_t wb) {
  const __m256i weights =
      _mm256_set1_epi32(static_cast<std::uint16_t>(wa) | static_cast<std::int32_t>(wb) << 16);
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weights));
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weights));
}

// Reads 16 bytes at a time, and writes 16 numbers, up to 15 behind the last.
DTSFLOW_AVX2 void down_avx2(const std::uint8_t *const *rows, const Weights &weights, int bytes,
                            std::int16_t *line) {
  const int radius = weights.radius;
  const auto both = [&](int k, int i) DTSFLOW_AVX2 {
    return _mm256_add_epi16(pixels(rows[radius - k] + i), pixels(rows[radius + k] + i));
  };
  for (int i = 0; i < bytes; i += 16) {
    Sums sums{_mm256_set1_epi32(kFirstBias), _mm256_set1_epi32(kFirstBias)};
    const __m256i middle = pixels(rows[radius] + i);
    if (radius == 0) add(sums, middle, middle, weights.of[0], 0);
    if (radius > 0) add(sums, middle, both(1, i), weights.of[0], weights.of[1]);
    int k = 2;
    for (; k + 1 <= radius; k += 2) {
      add(sums, both(k, i), both(k + 1, i), weights.of[k], weights.of[k + 1]);
    }
    if (k <= radius) add(sums, both(k, i), middle, weights.of[k], 0);
    const __m256i made = _mm256_packs_epi32(_mm256_srai_epi32(sums.low, kFirstShift),
                                            _mm256_srai_epi32(sums.high, kFirstShift));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(line + i), made);
  }
}

// Likewise.
DTSFLOW_AVX2 void across_avx2(const std::int16_t *line, const Weights &weights, int channels,
                              int bytes, std::uint8_t *out) {
  for (int i = 0; i < bytes; i += 16) {
    Sums sums{_mm256_set1_epi32(kSecondBias), _mm256_set1_epi32(kSecondBias)};
    add(sums, numbers(line + i), _mm256_setzero_si256(), weights.of[0], 0);
    for (int k = 1; k <= weights.radius; ++k) {
      const std::ptrdiff_t far = static_cast<std::ptrdiff_t>(k) * channels;
      add(sums, numbers(line + i - far), numbers(line + i + far), weights.of[k], weights.of[k]);
    }
    const __m256i words = _mm256_packs_epi32(_mm256_srai_epi32(sums.low, kSecondShift),
                                             _mm256_srai_epi32(sums.high, kSecondShift));
    const __m128i bytes16 =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out + i), bytes16);
  }
}
#endif

// Continue a line of `width` pixels by `radius` on both sides.
void continue_line(std::int16_t *line, int width, int channels, int radius) {
  for (int k = 1; k <= radius; ++k) {
    const std::ptrdiff_t from_left = static_cast<std::ptrdiff_t>(reflected(-k, width)) * channels;
    const std::ptrdiff_t from_right =
        static_cast<std::ptrdiff_t>(reflected(width - 1 + k, width)) * channels;
    for (int c = 0; c < channels; ++c) {
      line[-static_cast<std::ptrdiff_t>(k) * channels + c] = line[from_left + c];
      line[static_cast<std::ptrdiff_t>(width - 1 + k) * channels + c] = line[from_right + c];
    }
  }
}

}  // namespace

Status blur(View &view, const StepParams &params, StepScratch &scratch) {
  Weights weights;
  if (!read(params, weights)) return Status::misfit;
  const int radius = weights.radius, bytes = view.width * view.channels;
  if (radius == 0) return Status::ok;
  View made;
  std::uint8_t *to = scratch.images.next(view.height, view.width, view.channels, made);
  std::int16_t *const room = scratch.line.room(static_cast<std::size_t>(bytes) +
                                               2 * static_cast<std::size_t>(radius * view.channels));
  if (!to || !room) return Status::no_memory;
  std::int16_t *const line = room + static_cast<std::ptrdiff_t>(radius) * view.channels;
  const std::uint8_t *rows[2 * kMostRadius + 1];
  for (int y = 0; y < view.height; ++y, to += made.stride) {
    for (int k = -radius; k <= radius; ++k) {
      rows[radius + k] = view.data + reflected(y + k, view.height) * view.stride;
    }
#if DTSFLOW_X86
    if (cpu_level() >= CpuLevel::avx2) {
      down_avx2(rows, weights, bytes, line);
      continue_line(line, view.width, view.channels, radius);
      across_avx2(line, weights, view.channels, bytes, to);
      continue;
    }
#endif
    down_portable(rows, weights, bytes, line);
    continue_line(line, view.width, view.channels, radius);
    across_portable(line, weights, view.channels, bytes, to);
  }
  view = made;
  return Status::ok;
}

}  // namespace dtsflow

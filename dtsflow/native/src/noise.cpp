#include "noise.hpp"

#include <algorithm>
#include <cstring>

#include "draws.hpp"
#include "rgb_block.hpp"

namespace dtsflow {
namespace {

constexpr float kMost = 1e5F;  // of mean and deviation: their noise fits 22 bits
constexpr int kGroup = 4;      // counters that vector code takes at a time
constexpr int kPerCounter = 8, kElements = kGroup * kPerCounter;
constexpr int kSignBit = 0x8000;

struct Key {
  std::uint32_t low, high;
};

// 16 bits for each of kElements bytes of a row, from byte `counter` * 8 on.
void draw_portable(Key key, std::uint32_t counter, std::uint32_t row, std::uint16_t *drawn) {
  std::uint32_t counters[4 * kGroup] = {}, words[4 * kGroup];
  for (std::uint32_t i = 0; i < kGroup; ++i) {
    counters[4 * i] = counter + i;
    counters[4 * i + 1] = row;
  }
  philox(counters, kGroup, key.low, key.high, words);
  for (int i = 0; i < 4 * kGroup; ++i) {
    drawn[2 * i] = static_cast<std::uint16_t>(words[i]);
    drawn[2 * i + 1] = static_cast<std::uint16_t>(words[i] >> 16);
  }
}

#if DTSFLOW_X86
// Each word of four counters in the lower halves of four 64-bit lanes.
__attribute__((target("avx2"))) void draw_avx2(Key key, std::uint32_t counter, std::uint32_t row,
                                               std::uint16_t *drawn) {
  const __m256i mul0 = _mm256_set1_epi64x(0xD2511F53), mul1 = _mm256_set1_epi64x(0xCD9E8D57);
  __m256i c0 = _mm256_add_epi32(_mm256_set1_epi64x(counter), _mm256_setr_epi64x(0, 1, 2, 3));
  __m256i c1 = _mm256_set1_epi64x(row), c2 = _mm256_setzero_si256(), c3 = c2;
  for (int round = 0; round < 10; ++round, key.low += 0x9E3779B9, key.high += 0xBB67AE85) {
    const __m256i a = _mm256_mul_epu32(c0, mul0), b = _mm256_mul_epu32(c2, mul1);
    c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(b, 32), c1),
                          _mm256_set1_epi64x(key.low));
    c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), c3),
                          _mm256_set1_epi64x(key.high));
    c1 = b;  // whose upper half no one reads
    c3 = a;
  }
  const __m256i lower = _mm256_set1_epi64x(0xFFFFFFFF);
  const __m256i first = _mm256_or_si256(_mm256_and_si256(c0, lower), _mm256_slli_epi64(c1, 32));
  const __m256i second = _mm256_or_si256(_mm256_and_si256(c2, lower), _mm256_slli_epi64(c3, 32));
  const __m256i even = _mm256_unpacklo_epi64(first, second);  // counters 0 and 2
  const __m256i odd = _mm256_unpackhi_epi64(first, second);
  auto *const to = reinterpret_cast<__m256i *>(drawn);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}
#endif

template <bool kVector>
DTSFLOW_INLINE void rows(const View &view, Key key, float mean, float sigma,
                         const std::int16_t *normals, std::uint8_t *out, std::ptrdiff_t stride) {
  constexpr float kUnit = 1.0F / 4096.0F;         // of a quantile in the table
  constexpr float kRounding = 12582912.0F;        // 1.5 * 2^23: adding it rounds half to even
  const int bytes = view.width * view.channels;
  alignas(32) std::uint16_t drawn[kElements];
  alignas(32) std::int16_t sizes[kElements];
  for (int y = 0; y < view.height; ++y, out += stride) {
    const std::uint8_t *const from = view.data + y * view.stride;
    for (int x = 0; x < bytes; x += kElements) {
      const auto counter = static_cast<std::uint32_t>(x / kPerCounter);
      const auto row = static_cast<std::uint32_t>(y);
#if DTSFLOW_X86
      if constexpr (kVector) draw_avx2(key, counter, row, drawn);
#endif
      if constexpr (!kVector) draw_portable(key, counter, row, drawn);
      for (int i = 0; i < kElements; ++i) sizes[i] = normals[drawn[i] & (kSignBit - 1)];
      std::uint8_t made[kElements];
      std::uint8_t given[kElements] = {};
      const int count = std::min(kElements, bytes - x);
      std::memcpy(given, from + x, static_cast<std::size_t>(count));
      for (int i = 0; i < kElements; ++i) {
        const std::int32_t sign = -(drawn[i] >> 15);  // all bits set, or none
        const std::int32_t z = (sizes[i] ^ sign) - sign;
        const float noise = static_cast<float>(z) * kUnit * sigma + mean;
        const auto whole = static_cast<std::int32_t>((noise + kRounding) - kRounding);
        const std::int32_t value = given[i] + whole;
        made[i] = static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
      }
      std::memcpy(out + x, made, static_cast<std::size_t>(count));
    }
  }
}

#if DTSFLOW_X86
__attribute__((target("avx2"))) void rows_avx2(const View &view, Key key, float mean, float sigma,
                                               const std::int16_t *normals, std::uint8_t *out,
                                               std::ptrdiff_t stride) {
  rows<true>(view, key, mean, sigma, normals, out, stride);
}
#endif

}  // namespace

Status noise(View &view, const StepParams &params, StepScratch &scratch) {
  float mean, sigma;
  std::memcpy(&mean, &params.own[2], sizeof mean);
  std::memcpy(&sigma, &params.own[3], sizeof sigma);
  if (!(mean >= -kMost && mean <= kMost && sigma >= 0.0F && sigma <= kMost)) return Status::misfit;
  if (!scratch.normals) return Status::misfit;
  const Key key{static_cast<std::uint32_t>(params.own[0]), static_cast<std::uint32_t>(params.own[1])};
  View made;
  std::uint8_t *const to = scratch.images.next(view.height, view.width, view.channels, made);
  if (!to) return Status::no_memory;
#if DTSFLOW_X86
  if (cpu_level() >= CpuLevel::avx2) {
    rows_avx2(view, key, mean, sigma, scratch.normals, to, made.stride);
    view = made;
    return Status::ok;
  }
#endif
  rows<false>(view, key, mean, sigma, scratch.normals, to, made.stride);
  view = made;
  return Status::ok;
}

}  // namespace dtsflow

// A few RGB pixels as three planes of int32, a form that compilers vectorise.
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu.hpp"
#if DTSFLOW_X86
#include <immintrin.h>
#endif

#if defined(__GNUC__)
#define DTSFLOW_INLINE inline __attribute__((always_inline))
#else
#define DTSFLOW_INLINE inline
#endif

namespace dtsflow {

// Lanes beyond the pixels that were loaded hold those of an earlier block, or zeros.
struct RgbBlock {
  static constexpr int kPixels = 32;
  alignas(32) std::int32_t r[kPixels] = {}, g[kPixels] = {}, b[kPixels] = {};
};

inline void load_portable(const std::uint8_t *from, int count, RgbBlock &to) {
  for (int i = 0; i < count; ++i, from += 3) {
    to.r[i] = from[0];
    to.g[i] = from[1];
    to.b[i] = from[2];
  }
}

inline void store_portable(const RgbBlock &from, int count, std::uint8_t *to) {
  for (int i = 0; i < count; ++i, to += 3) {
    to[0] = static_cast<std::uint8_t>(from.r[i]);
    to[1] = static_cast<std::uint8_t>(from.g[i]);
    to[2] = static_cast<std::uint8_t>(from.b[i]);
  }
}

#if DTSFLOW_X86
// Eight pixels at a time; reads, and writes, up to 28 bytes past the last one's first.
__attribute__((target("avx2"))) inline void load_avx2(const std::uint8_t *from, int count,
                                                      RgbBlock &to) {
  const __m256i spread = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 0, 1,
                                          2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
  const __m256i low = _mm256_set1_epi32(255);
  for (int i = 0; i < count; i += 8, from += 24) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
    const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + 12));
    const __m256i pixels = _mm256_shuffle_epi8(
        _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1), spread);
    _mm256_store_si256(reinterpret_cast<__m256i *>(to.r + i), _mm256_and_si256(pixels, low));
    _mm256_store_si256(reinterpret_cast<__m256i *>(to.g + i),
                       _mm256_and_si256(_mm256_srli_epi32(pixels, 8), low));
    _mm256_store_si256(reinterpret_cast<__m256i *>(to.b + i), _mm256_srli_epi32(pixels, 16));
  }
}

__attribute__((target("avx2"))) inline void store_avx2(const RgbBlock &from, int count,
                                                       std::uint8_t *to) {
  const __m256i together = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0,
                                            1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  for (int i = 0; i < count; i += 8, to += 24) {
    const __m256i r = _mm256_load_si256(reinterpret_cast<const __m256i *>(from.r + i));
    const __m256i g = _mm256_load_si256(reinterpret_cast<const __m256i *>(from.g + i));
    const __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i *>(from.b + i));
    const __m256i pixels = _mm256_shuffle_epi8(
        _mm256_or_si256(r, _mm256_or_si256(_mm256_slli_epi32(g, 8), _mm256_slli_epi32(b, 16))),
        together);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm256_castsi256_si128(pixels));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + 12), _mm256_extracti128_si256(pixels, 1));
  }
}
#endif

template <bool kVector>
DTSFLOW_INLINE void load(const std::uint8_t *from, int count, RgbBlock &to) {
#if DTSFLOW_X86
  if constexpr (kVector) return load_avx2(from, count, to);
#endif
  load_portable(from, count, to);
}

// With vector code `to` must be scratch that is filled from left to right, from top to
// bottom, and is not what is read.
template <bool kVector>
DTSFLOW_INLINE void store(const RgbBlock &from, int count, std::uint8_t *to) {
#if DTSFLOW_X86
  if constexpr (kVector) return store_avx2(from, count, to);
#endif
  store_portable(from, count, to);
}

// Pillow's L, ITU-R 601-2 luma in 16 bits, rounded half up.
DTSFLOW_INLINE std::int32_t luma(std::int32_t r, std::int32_t g, std::int32_t b) {
  return (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
}

}  // namespace dtsflow

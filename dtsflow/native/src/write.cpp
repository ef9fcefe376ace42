#include "write.hpp"

#include <cstring>

#include "copy.hpp"
#include "cpu.hpp"
#if DTSFLOW_X86
#include <immintrin.h>
#endif

namespace dtsflow {
namespace {

// kChannels and kStored are those of `finish` where compilers know them, else 0.
template <typename Element, int kChannels, int kStored>
void by_table(const View &view, bool mirrored, const Finish &finish, Element *out) {
  const auto *const table = static_cast<const Element *>(finish.table);
  const int channels = kChannels ? kChannels : finish.channels;
  const int stored = kStored ? kStored : finish.stored_channels;
  for (int y = 0; y < view.height; ++y) {
    const std::uint8_t *from = view.data + y * view.stride;
    std::ptrdiff_t step = channels;
    if (mirrored) {
      from += static_cast<std::ptrdiff_t>(view.width - 1) * channels;
      step = -step;
    }
    for (int x = 0; x < view.width; ++x, from += step, out += stored) {
      for (int c = 0; c < channels; ++c) out[c] = table[c << 8 | from[c]];
      for (int c = channels; c < stored; ++c) out[c] = Element{};
    }
  }
}

template <typename Element>
void by_table(const View &view, bool mirrored, const Finish &finish, std::uint8_t *out) {
  auto *const to = reinterpret_cast<Element *>(out);
  const int channels = finish.channels, stored = finish.stored_channels;
  if (channels == 1 && stored == 1) return by_table<Element, 1, 1>(view, mirrored, finish, to);
  if (channels == 3 && stored == 3) return by_table<Element, 3, 3>(view, mirrored, finish, to);
  if (channels == 3 && stored == 4) return by_table<Element, 3, 4>(view, mirrored, finish, to);
  by_table<Element, 0, 0>(view, mirrored, finish, to);
}

#if DTSFLOW_X86
// From this size on a row is larger than what a near cache holds anyway.
constexpr int kStreamedPixels = 128 * 128;

#define DTSFLOW_VECTOR __attribute__((target("avx2,f16c"))) inline

// Eight elements of 16 bits, rounded to nearest even.
template <Cast kCast>
DTSFLOW_VECTOR __m128i round_to(__m256 values) {
  if constexpr (kCast == Cast::fp16) return _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
  const __m256i upper = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
}

template <Cast kCast>
struct Register {
  __m128i all;
};

template <>
struct Register<Cast::fp32> {
  __m256i all;
};

// Two pixels as they are written. Of RGB the six elements come together, and two stray ones
// follow.
template <Cast kCast, int kStored>
struct Two : Register<kCast> {
  using Register<kCast>::all;

  DTSFLOW_VECTOR explicit Two(__m256 values) {
    if constexpr (kCast == Cast::fp32) {
      const __m256i together = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7);
      all = _mm256_castps_si256(kStored == 4 ? values : _mm256_permutevar8x32_ps(values, together));
    } else {
      const __m128i together = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1);
      const __m128i eight = round_to<kCast>(values);
      all = kStored == 4 ? eight : _mm_shuffle_epi8(eight, together);
    }
  }

  DTSFLOW_VECTOR void store(std::uint8_t *to) const {
    if constexpr (kCast == Cast::fp32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), all);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i *>(to), all);
    }
  }

  // Past the cache: a batch is larger, and what it overwrites need not be read.
  DTSFLOW_VECTOR void stream(std::uint8_t *to) const {
    if constexpr (kCast == Cast::fp32) {
      _mm256_stream_si256(reinterpret_cast<__m256i *>(to), all);
    } else {
      _mm_stream_si128(reinterpret_cast<__m128i *>(to), all);
    }
  }
};

// RGB to three or four channels, two pixels at a time: one multiply and one add in single
// precision, not fused, then round to nearest even, as the table was made.
template <Cast kCast, int kStored>
__attribute__((target("avx2,f16c"))) void write_rgb(const View &view, bool mirrored,
                                                    const Finish &finish, std::uint8_t *out) {
  constexpr int kPixelBytes = kStored * (kCast == Cast::fp32 ? 4 : 2);
  const float *const a = finish.scale, *const b = finish.offset;
  const __m256 scale = _mm256_setr_ps(a[0], a[1], a[2], 0, a[0], a[1], a[2], 0);
  const __m256 offset = _mm256_setr_ps(b[0], b[1], b[2], 0, b[0], b[1], b[2], 0);
  const __m128i forward = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i backward = _mm_setr_epi8(3, 4, 5, -1, 0, 1, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i order = mirrored ? backward : forward;
  const int pairs = view.width / 2;
  const bool streams = kStored == 4 && view.width % 2 == 0 &&
                       reinterpret_cast<std::uintptr_t>(out) % (2 * kPixelBytes) == 0 &&
                       view.height * view.width >= kStreamedPixels;
  using Pixels = Two<kCast, kStored>;
  for (int y = 0; y < view.height; ++y, out += static_cast<std::ptrdiff_t>(view.width) * kPixelBytes) {
    const std::uint8_t *const row = view.data + y * view.stride;
    const auto convert = [&](const std::uint8_t *from, __m128i pick) __attribute__((target("avx2,f16c"))) {
      const __m128i bytes = _mm_shuffle_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)), pick);
      const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
      return Pixels(_mm256_add_ps(_mm256_mul_ps(values, scale), offset));
    };
    for (int i = 0; i < pairs; ++i) {
      const int at = mirrored ? view.width - 2 - 2 * i : 2 * i;
      const Pixels two = convert(row + 3 * at, order);
      std::uint8_t *const to = out + 2 * kPixelBytes * i;
      if (streams) {
        two.stream(to);
      } else if (kStored == 4 || 2 * i + 3 <= view.width) {
        two.store(to);
      } else {
        std::memcpy(to, &two.all, 2 * kPixelBytes);  // no pixel follows
      }
    }
    if (view.width % 2) {
      const int at = mirrored ? 0 : view.width - 1;
      const Pixels last = convert(row + 3 * at, forward);
      std::memcpy(out + 2 * kPixelBytes * pairs, &last.all, kPixelBytes);
    }
  }
  if (streams) _mm_sfence();  // whoever is told that the row is there must find it
}

using Write = void (*)(const View &view, bool mirrored, const Finish &finish, std::uint8_t *out);

template <Cast kCast>
Write write_of(int stored) {
  return stored == 4 ? write_rgb<kCast, 4> : stored == 3 ? write_rgb<kCast, 3> : nullptr;
}

// nullptr where the table has to do.
Write vector_write(const Finish &finish) {
  if (finish.channels != 3 || cpu_level() < CpuLevel::avx2) return nullptr;
  switch (finish.cast) {
    case Cast::fp16:
      return write_of<Cast::fp16>(finish.stored_channels);
    case Cast::bf16:
      return write_of<Cast::bf16>(finish.stored_channels);
    case Cast::fp32:
      return write_of<Cast::fp32>(finish.stored_channels);
    default:
      return nullptr;
  }
}
#endif

}  // namespace

void write_row(const View &view, bool mirrored, const Finish &finish, std::uint8_t *out) {
#if DTSFLOW_X86
  if (const Write write = vector_write(finish)) return write(view, mirrored, finish, out);
#endif
  const int stored = finish.stored_channels;
  switch (finish.cast) {
    case Cast::uint8:
      copy_pixels(view, mirrored, stored, out, static_cast<std::ptrdiff_t>(view.width) * stored);
      break;
    case Cast::fp16:
    case Cast::bf16:
      by_table<std::uint16_t>(view, mirrored, finish, out);
      break;
    case Cast::fp32:
      by_table<std::uint32_t>(view, mirrored, finish, out);
      break;
  }
}

}  // namespace dtsflow

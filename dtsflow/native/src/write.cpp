#include "write.hpp"

#include <cstring>

#include "cpu.hpp"
#if DTSFLOW_X86
#include <immintrin.h>
#endif

namespace dtsflow {
namespace {

template <typename Element>
void by_table(const View &view, bool mirrored, const Finish &finish, Element *out) {
  const auto *const table = static_cast<const Element *>(finish.table);
  const int channels = finish.channels, stored = finish.stored_channels;
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

void plain(const View &view, bool mirrored, const Finish &finish, std::uint8_t *out) {
  const int channels = finish.channels, stored = finish.stored_channels;
  for (int y = 0; y < view.height; ++y, out += static_cast<std::ptrdiff_t>(view.width) * stored) {
    const std::uint8_t *const from = view.data + y * view.stride;
    if (!mirrored && stored == channels) {
      std::memcpy(out, from, static_cast<std::size_t>(view.width) * static_cast<std::size_t>(channels));
      continue;
    }
    for (int x = 0; x < view.width; ++x) {
      const std::uint8_t *const pixel = from + static_cast<std::ptrdiff_t>(mirrored ? view.width - 1 - x : x) * channels;
      std::uint8_t *const to = out + static_cast<std::ptrdiff_t>(x) * stored;
      for (int c = 0; c < channels; ++c) to[c] = pixel[c];
      for (int c = channels; c < stored; ++c) to[c] = 0;
    }
  }
}

#if DTSFLOW_X86
// From this size on a row is larger than what a near cache holds anyway.
constexpr int kStreamedPixels = 128 * 128;

// RGB to three or four half-precision channels, two pixels at a time: one multiply and one
// add in single precision, not fused, then round to nearest even, as the table was made.
template <int kStored>
__attribute__((target("avx2,f16c"))) void rgb_to_fp16(const View &view, bool mirrored,
                                                      const Finish &finish, std::uint16_t *out) {
  const float *const a = finish.scale, *const b = finish.offset;
  const __m256 scale = _mm256_setr_ps(a[0], a[1], a[2], 0, a[0], a[1], a[2], 0);
  const __m256 offset = _mm256_setr_ps(b[0], b[1], b[2], 0, b[0], b[1], b[2], 0);
  const __m128i forward = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i backward = _mm_setr_epi8(3, 4, 5, -1, 0, 1, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i order = mirrored ? backward : forward;
  // Packed, the six halves of two pixels come together; two stray ones follow.
  const __m128i together = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1);
  const int pairs = view.width / 2;
  const bool is_aligned = kStored == 4 && view.width % 2 == 0 &&
                          reinterpret_cast<std::uintptr_t>(out) % 16 == 0 &&
                          view.height * view.width >= kStreamedPixels;
  for (int y = 0; y < view.height; ++y, out += static_cast<std::ptrdiff_t>(view.width) * kStored) {
    const std::uint8_t *const row = view.data + y * view.stride;
    const auto convert = [&](const std::uint8_t *from, __m128i pick) __attribute__((target("avx2,f16c"))) {
      const __m128i bytes = _mm_shuffle_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)), pick);
      const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
      const __m256 scaled = _mm256_mul_ps(values, scale);
      const __m128i halves =
          _mm256_cvtps_ph(_mm256_add_ps(scaled, offset), _MM_FROUND_TO_NEAREST_INT);
      return kStored == 4 ? halves : _mm_shuffle_epi8(halves, together);
    };
    for (int i = 0; i < pairs; ++i) {
      const int at = mirrored ? view.width - 2 - 2 * i : 2 * i;
      const __m128i two = convert(row + 3 * at, order);
      std::uint16_t *const to = out + 2 * kStored * i;
      if (kStored == 4 && is_aligned) {
        // Past the cache: a batch is larger, and what it overwrites need not be read.
        _mm_stream_si128(reinterpret_cast<__m128i *>(to), two);
      } else if (kStored == 4 || 2 * i + 4 <= view.width) {
        _mm_storeu_si128(reinterpret_cast<__m128i *>(to), two);
      } else {
        std::memcpy(to, &two, 2 * kStored * sizeof(std::uint16_t));  // no pixel follows
      }
    }
    if (view.width % 2) {
      const int at = mirrored ? 0 : view.width - 1;
      const __m128i last = convert(row + 3 * at, forward);
      std::memcpy(out + 2 * kStored * pairs, &last, kStored * sizeof(std::uint16_t));
    }
  }
  if (is_aligned) _mm_sfence();  // whoever is told that the row is there must find it
}
#endif

}  // namespace

void write_row(const View &view, bool mirrored, const Finish &finish, std::uint8_t *out) {
#if DTSFLOW_X86
  if (finish.cast == Cast::fp16 && finish.channels == 3 && cpu_level() >= CpuLevel::avx2) {
    auto *const halves = reinterpret_cast<std::uint16_t *>(out);
    if (finish.stored_channels == 4) return rgb_to_fp16<4>(view, mirrored, finish, halves);
    if (finish.stored_channels == 3) return rgb_to_fp16<3>(view, mirrored, finish, halves);
  }
#endif
  switch (finish.cast) {
    case Cast::uint8:
      plain(view, mirrored, finish, out);
      break;
    case Cast::fp16:
    case Cast::bf16:
      by_table(view, mirrored, finish, reinterpret_cast<std::uint16_t *>(out));
      break;
    case Cast::fp32:
      by_table(view, mirrored, finish, reinterpret_cast<std::uint32_t *>(out));
      break;
  }
}

}  // namespace dtsflow

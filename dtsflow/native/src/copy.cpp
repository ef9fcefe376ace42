#include "copy.hpp"

#include <cstring>

#include "cpu.hpp"
#if DTSFLOW_X86
#include <immintrin.h>
#endif

namespace dtsflow {
namespace {

// `width` pixels from `from` on, backwards where `step` is negative.
void copy_some(const std::uint8_t *from, int width, int channels, std::ptrdiff_t step, int stored,
               std::uint8_t *to) {
  for (int x = 0; x < width; ++x, from += step, to += stored) {
    for (int c = 0; c < channels; ++c) to[c] = from[c];
    for (int c = channels; c < stored; ++c) to[c] = 0;
  }
}

// The same where compilers know the numbers.
template <int kChannels, int kStored>
void copy_row(const std::uint8_t *row, int width, bool mirrored, std::uint8_t *to) {
  if (mirrored) {
    copy_some(row + static_cast<std::ptrdiff_t>(width - 1) * kChannels, width, kChannels,
              -kChannels, kStored, to);
  } else {
    copy_some(row, width, kChannels, kChannels, kStored, to);
  }
}

#if DTSFLOW_X86
// Which bytes of what is read come where in 16 that are written: whole pixels, then zeros.
struct Places {
  alignas(16) std::int8_t of[16];
};

constexpr Places places(int stored, bool mirrored) {
  Places made{};
  const int pixels = 16 / stored;
  for (int i = 0; i < 16; ++i) {
    const int pixel = i / stored, channel = i % stored;
    const int source = mirrored ? pixels - 1 - pixel : pixel;
    made.of[i] = static_cast<std::int8_t>(pixel < pixels && channel < 3 ? 3 * source + channel : -1);
  }
  return made;
}

// RGB, as many pixels at a time as fit 16 bytes of what is written.
template <int kStored>
__attribute__((target("avx2"))) void copy_rgb_row(const std::uint8_t *row, int width,
                                                  bool mirrored, std::uint8_t *to) {
  constexpr int kPixels = 16 / kStored;
  static constexpr Places kForward = places(kStored, false), kBackward = places(kStored, true);
  const std::int8_t *const order = mirrored ? kBackward.of : kForward.of;
  const __m128i pick = _mm_load_si128(reinterpret_cast<const __m128i *>(order));
  int x = 0;
  // A store of five RGB pixels is a byte too long where no other pixel follows.
  for (; x + kPixels < width + (kStored == 4); x += kPixels) {
    const int at = mirrored ? width - kPixels - x : x;
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i *>(row + 3 * at));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + kStored * x), _mm_shuffle_epi8(some, pick));
  }
  copy_row<3, kStored>(mirrored ? row : row + 3 * x, width - x, mirrored, to + kStored * x);
}
#endif

using CopyRow = void (*)(const std::uint8_t *row, int width, bool mirrored, std::uint8_t *to);

// nullptr for numbers of channels that images hardly ever have.
CopyRow row_copy(int channels, int stored) {
  if (channels == 1 && stored == 1) return copy_row<1, 1>;
  if (channels == 4 && stored == 4) return copy_row<4, 4>;
  if (channels != 3) return nullptr;
#if DTSFLOW_X86
  if (cpu_level() >= CpuLevel::avx2) {
    if (stored == 3) return copy_rgb_row<3>;
    if (stored == 4) return copy_rgb_row<4>;
  }
#endif
  return stored == 3 ? copy_row<3, 3> : stored == 4 ? copy_row<3, 4> : nullptr;
}

}  // namespace

void copy_pixels(const View &view, bool mirrored, int stored, std::uint8_t *out,
                 std::ptrdiff_t stride) {
  const int channels = view.channels;
  const CopyRow copy = row_copy(channels, stored);
  const std::uint8_t *row = view.data;
  for (int y = 0; y < view.height; ++y, row += view.stride, out += stride) {
    if (!mirrored && stored == channels) {
      std::memcpy(out, row, static_cast<std::size_t>(view.width) * static_cast<std::size_t>(channels));
    } else if (copy) {
      copy(row, view.width, mirrored, out);
    } else {
      const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(view.width - 1) * channels;
      copy_some(mirrored ? row + last : row, view.width, channels, mirrored ? -channels : channels,
                stored, out);
    }
  }
}

}  // namespace dtsflow

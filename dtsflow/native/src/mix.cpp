#include "mix.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu.hpp"
#include "half.hpp"
#if DTSFLOW_X86
#include <immintrin.h>
#endif

namespace dtsflow {
namespace {

constexpr std::int64_t kTileBytes = 1 << 14;  // two of them lie in the nearest cache

struct Uint8 {
  using Element = std::uint8_t;
  static DTSFLOW_INLINE float number(Element element) { return static_cast<float>(element); }
  // Of a number from 0 to 255: added to 2^23, its last bits are the nearest whole one.
  static DTSFLOW_INLINE Element element(float number) {
    return static_cast<Element>(std::bit_cast<std::uint32_t>(number + 0x1p23f));
  }
};

struct Half {
  using Element = std::uint16_t;
  static DTSFLOW_INLINE float number(Element element) { return from_half(element); }
  static DTSFLOW_INLINE Element element(float number) { return to_half(number); }
};

struct Bfloat16 {
  using Element = std::uint16_t;
  static DTSFLOW_INLINE float number(Element element) { return from_bfloat16(element); }
  static DTSFLOW_INLINE Element element(float number) { return to_bfloat16(number); }
};

struct Single {
  using Element = float;
  static DTSFLOW_INLINE float number(Element element) { return element; }
  static DTSFLOW_INLINE Element element(float number) { return number; }
};

using Mix = void (*)(void *own, const void *other, std::int64_t count, float share);

template <typename Kind>
DTSFLOW_INLINE void mix_elements(void *own, const void *other, std::int64_t count, float share) {
  using Element = typename Kind::Element;
  auto *const to = static_cast<Element *>(own);
  const auto *const from = static_cast<const Element *>(other);
  const float rest = 1.0F - share;
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = Kind::element(Kind::number(to[i]) * share + Kind::number(from[i]) * rest);
  }
}

template <typename Kind>
void mix_portable(void *own, const void *other, std::int64_t count, float share) {
  mix_elements<Kind>(own, other, count, share);
}

#if DTSFLOW_X86
template <typename Kind>
__attribute__((target("avx2"))) void mix_avx2(void *own, const void *other, std::int64_t count,
                                              float share) {
  mix_elements<Kind>(own, other, count, share);
}

__attribute__((target("avx2,f16c"))) void mix_halves(void *own, const void *other,
                                                     std::int64_t count, float share) {
  auto *const to = static_cast<std::uint16_t *>(own);
  const auto *const from = static_cast<const std::uint16_t *>(other);
  const __m256 mine = _mm256_set1_ps(share), theirs = _mm256_set1_ps(1.0F - share);
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 a = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(to + i)));
    const __m256 b = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i)));
    const __m256 mixed = _mm256_add_ps(_mm256_mul_ps(a, mine), _mm256_mul_ps(b, theirs));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i),
                     _mm256_cvtps_ph(mixed, _MM_FROUND_TO_NEAREST_INT));
  }
  mix_elements<Half>(to + i, from + i, count - i, share);
}
#endif

Mix mix_of(Cast cast) {
#if DTSFLOW_X86
  if (cpu_level() >= CpuLevel::avx2) {
    switch (cast) {
      case Cast::uint8:
        return mix_avx2<Uint8>;
      case Cast::fp16:
        return mix_halves;
      case Cast::bf16:
        return mix_avx2<Bfloat16>;
      case Cast::fp32:
        return mix_avx2<Single>;
    }
  }
#endif
  switch (cast) {
    case Cast::uint8:
      return mix_portable<Uint8>;
    case Cast::fp16:
      return mix_portable<Half>;
    case Cast::bf16:
      return mix_portable<Bfloat16>;
    default:
      return mix_portable<Single>;
  }
}

}  // namespace

std::optional<Lane> Lane::of(std::uint8_t *rows, std::int64_t row_bytes,
                             const std::int64_t *partners, std::int64_t count) {
  Lane made(rows, row_bytes, partners);
  std::vector<bool> seen(static_cast<std::size_t>(count));
  for (std::int64_t start = 0; start < count; ++start) {
    if (seen[static_cast<std::size_t>(start)]) continue;
    std::int64_t row = start;
    do {
      if (row < 0 || row >= count || seen[static_cast<std::size_t>(row)]) return std::nullopt;
      seen[static_cast<std::size_t>(row)] = true;
      row = partners[row];
    } while (row != start);
    if (partners[start] != start) made.rings_.push_back(start);
  }
  return made;
}

// Change each row by its partner as that was before, `bytes` of them from `first` on. Along a
// ring a row is read once more right after it changed the one before, then it changes.
template <typename Change>
void Lane::walk(std::int64_t first, std::int64_t bytes, const Change &change) const {
  alignas(64) std::uint8_t kept[kTileBytes];
  for (const std::int64_t start : rings_) {
    for (std::int64_t done = 0; done < bytes; done += kTileBytes) {
      const std::int64_t size = std::min(kTileBytes, bytes - done);
      std::uint8_t *const tile = rows_ + first + done;
      std::memcpy(kept, tile + start * row_bytes_, static_cast<std::size_t>(size));
      for (std::int64_t row = start; row >= 0;) {
        const std::int64_t partner = partners_[row];
        const bool is_last = partner == start;
        change(tile + row * row_bytes_, is_last ? kept : tile + partner * row_bytes_, size);
        row = is_last ? -1 : partner;
      }
    }
  }
}

void Lane::blend(Cast cast, float share) const {
  const Mix mix = mix_of(cast);
  walk(0, row_bytes_, [=](std::uint8_t *own, const std::uint8_t *other, std::int64_t size) {
    mix(own, other, size / element_bytes(cast), share);
  });
}

void Lane::paste(std::int64_t first, std::int64_t bytes, std::int64_t lines,
                 std::int64_t stride) const {
  for (std::int64_t line = 0; line < lines; ++line) {
    walk(first + line * stride, bytes, [](std::uint8_t *own, const std::uint8_t *other, std::int64_t size) {
      std::memcpy(own, other, static_cast<std::size_t>(size));
    });
  }
}

}  // namespace dtsflow

#include "crc.hpp"

#include <array>

#include "cpu.hpp"

#if DTSFLOW_X86
#include <immintrin.h>
#endif

namespace dtsflow {
namespace {

// The polynomial P of zlib, PNG and Ethernet. Reflected, as all numbers here: the lowest
// bit of the first byte is the coefficient of the highest power.
constexpr std::uint32_t kPolynomial = 0xEDB88320;

constexpr std::uint32_t times_x(std::uint32_t value) {
  return (value >> 1) ^ (value & 1 ? kPolynomial : 0);
}

// Slicing by 8 (Kounavis and Berry, "Novel Table Lookup-Based Algorithms for
// High-Performance CRC Generation", 2008): table k takes a byte over k more zero bytes.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = times_x(value);
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t value = tables[k - 1][byte];
      tables[k][byte] = (value >> 8) ^ tables[0][value & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

// Little-endian on every machine; compilers make one load of it.
inline std::uint32_t word(const std::uint8_t *at) {
  return at[0] | std::uint32_t{at[1]} << 8 | std::uint32_t{at[2]} << 16 |
         std::uint32_t{at[3]} << 24;
}

// The register after `size` more bytes, without the inversions at start and end.
std::uint32_t by_tables(const std::uint8_t *data, std::size_t size, std::uint32_t state) {
  for (; size >= 8; data += 8, size -= 8) {
    const std::uint32_t low = word(data) ^ state, high = word(data + 4);
    state = kTables[7][low & 0xFF] ^ kTables[6][low >> 8 & 0xFF] ^
            kTables[5][low >> 16 & 0xFF] ^ kTables[4][low >> 24] ^ kTables[3][high & 0xFF] ^
            kTables[2][high >> 8 & 0xFF] ^ kTables[1][high >> 16 & 0xFF] ^ kTables[0][high >> 24];
  }
  for (; size > 0; ++data, --size) {
    state = (state >> 8) ^ kTables[0][(state ^ *data) & 0xFF];
  }
  return state;
}

#if DTSFLOW_X86
// Folding, after Gopal et al., "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction" (Intel, 2009): 16 bytes that lie `bits` before others may be
// added to them, once multiplied by x^bits mod P, and the remainder stays the same.
#define DTSFLOW_CLMUL __attribute__((target("pclmul,sse4.1")))

constexpr std::size_t kLane = 16;  // bytes of a vector
constexpr std::size_t kLanes = 4;  // as many as hide the multiplier's latency

// x^power mod P as a vector's half: there the 32 bits of a remainder are the upper ones.
constexpr long long remainder_of(int power) {
  std::uint32_t value = 0x80000000;  // 1, reflected
  for (; power > 0; --power) value = times_x(value);
  return static_cast<long long>(std::uint64_t{value} << 32);
}

// What takes a vector over `bits`. Its low half holds the higher powers, by 64; and a
// product of reflected halves has one factor x too many, as 127 bits lie in 128.
template <int bits>
DTSFLOW_CLMUL inline __m128i keys() {
  constexpr long long low = remainder_of(bits + 64 - 1), high = remainder_of(bits - 1);
  return _mm_set_epi64x(high, low);
}

DTSFLOW_CLMUL inline __m128i lane(const std::uint8_t *at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at));
}

// `folded`, taken over the bits that `by` is for, and added to `next`.
DTSFLOW_CLMUL inline __m128i fold(__m128i folded, __m128i by, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(folded, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(folded, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, next), high);
}

// As by_tables; `size` is at least kLanes * kLane.
DTSFLOW_CLMUL std::uint32_t by_folding(const std::uint8_t *data, std::size_t size,
                                       std::uint32_t state) {
  constexpr std::size_t turn = kLanes * kLane;
  __m128i a = _mm_xor_si128(lane(data), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i b = lane(data + kLane), c = lane(data + 2 * kLane), d = lane(data + 3 * kLane);
  const __m128i over_turn = keys<8 * turn>(), over_lane = keys<8 * kLane>();
  for (data += turn, size -= turn; size >= turn; data += turn, size -= turn) {
    a = fold(a, over_turn, lane(data));
    b = fold(b, over_turn, lane(data + kLane));
    c = fold(c, over_turn, lane(data + 2 * kLane));
    d = fold(d, over_turn, lane(data + 3 * kLane));
  }
  a = fold(fold(fold(a, over_lane, b), over_lane, c), over_lane, d);
  for (; size >= kLane; data += kLane, size -= kLane) a = fold(a, over_lane, lane(data));
  // What is left stands for all bytes before it, so its own remainder is theirs.
  std::uint8_t rest[kLane];
  _mm_storeu_si128(reinterpret_cast<__m128i *>(rest), a);
  return by_tables(data, size, by_tables(rest, kLane, 0));
}
#endif

}  // namespace

std::uint32_t crc32(const std::uint8_t *data, std::size_t size, std::uint32_t value) {
#if DTSFLOW_X86
  if (size >= kLanes * kLane && cpu_level() >= CpuLevel::avx2) {
    return ~by_folding(data, size, ~value);
  }
#endif
  return ~by_tables(data, size, ~value);
}

}  // namespace dtsflow

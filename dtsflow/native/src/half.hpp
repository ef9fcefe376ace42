// Half precision and bfloat16 as bits, in a form that compilers vectorise.
#pragma once

#include <bit>
#include <cstdint>

#include "rgb_block.hpp"

namespace dtsflow {

// One of two by bits, for compilers do not vectorise a choice that floats are computed for.
DTSFLOW_INLINE std::uint32_t either(bool holds, std::uint32_t yes, std::uint32_t no) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(holds);
  return (mask & yes) | (~mask & no);
}

// The number that a half is; exact.
DTSFLOW_INLINE float from_half(std::uint16_t half) {
  const std::uint32_t magnitude = (half & 0x7FFFu) << 13;
  const std::uint32_t sign = (half & 0x8000u) << 16;
  // Read as a float its exponent is 112 too small, subnormals included.
  const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const bool is_finite = static_cast<std::int32_t>(magnitude) < 0x0F800000;
  return std::bit_cast<float>(either(is_finite, finite, magnitude | 0x7F800000u) | sign);
}

// Rounded to nearest even, to infinity from 65520 on; a NaN stays one.
DTSFLOW_INLINE std::uint16_t to_half(float value) {
  const auto whole = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = whole & 0x7FFFFFFFu;
  const auto size = static_cast<std::int32_t>(magnitude);
  const std::uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  const std::uint32_t normal = (rounded - (112u << 23)) >> 13;
  // Added to 1/2, whose last bit is worth 2^-24, a number below 2^-14 rounds to such bits.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  std::uint32_t bits = either(size < 0x38800000, subnormal, normal);
  bits = either(size >= 0x47800000, 0x7C00u, bits);
  bits = either(size > 0x7F800000, 0x7E00u | (magnitude >> 13 & 0x1FFu), bits);
  return static_cast<std::uint16_t>(bits | (whole >> 16 & 0x8000u));
}

DTSFLOW_INLINE float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Rounded to nearest even; as dtsflow/tensor/dtype.py.
DTSFLOW_INLINE std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace dtsflow

// Mixing two values of a pixel, as Pillow does.
#pragma once

#include <cstdint>

#include "rgb_block.hpp"

namespace dtsflow {

constexpr float kMostFactor = 1e6F;  // times a pixel it fits an int

// `factor` parts, 0 to kMostFactor, of `x` and the rest of `other`, cut to a whole number.
DTSFLOW_INLINE std::int32_t blend(std::int32_t other, std::int32_t x, float factor) {
  const float mixed = static_cast<float>(other) + factor * static_cast<float>(x - other);
  const auto whole = static_cast<std::int32_t>(mixed);
  return whole < 0 ? 0 : whole > 255 ? 255 : whole;
}

inline bool is_factor(float factor) { return factor >= 0.0F && factor <= kMostFactor; }

}  // namespace dtsflow

// What a fuzz target claims; a claim that does not hold is a finding.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Pixels of the largest image that is decoded here, so that one input takes no second.
inline constexpr std::int64_t kMostPixels = 1 << 17;

inline void expect(bool holds, const char *claim) {
  if (holds) return;
  std::fprintf(stderr, "Does not hold: %s\n", claim);
  std::abort();
}

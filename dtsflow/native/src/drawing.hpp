// How an operation chooses its parameters: what its draws become.
#pragma once

#include <cstdint>

#include "draws.hpp"
#include "step.hpp"

namespace dtsflow {

// The numbers are part of the interface: dtsflow/native/core.py names them too, and
// says which numbers each kind takes. The arithmetic is that of the operation's `draw`.
enum class DrawKind : int {
  resized_crop = 0,
  log_resized_crop = 1,  // the area is log-uniform
  crop = 2,
  centre_crop = 3,
  flip = 4,
  resize_short = 5,
  resize_exact = 6,
  resize_square = 7,
  pad = 8,
  erase = 9,
  chance = 10,
  jitter = 11,
  rotate = 12,
  affine = 13,
  rescale = 14,
  blur = 15,
  noise = 16,
  rand_augment = 17,
  trivial_augment = 18,
};

inline constexpr int kDrawKinds = 19;
inline constexpr int kDrawNumbers = 12;

struct Drawing {
  DrawKind kind;
  std::uint32_t position;  // of the operation in the chain as configured
  double numbers[kDrawNumbers];
};

struct Size {
  std::int64_t height, width;
};

// Choose for an image of `size`, which becomes the size of what comes out. Of `params`, all
// zeros, it sets the window, of which a flip is the first number, or the step's own numbers.
void choose(const Drawing &drawing, Draws &draws, Size &size, StepParams &params);

}  // namespace dtsflow

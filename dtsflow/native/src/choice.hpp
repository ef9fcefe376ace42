// The choices of each kind of drawing; `choose` of drawing.hpp finds the right one. Numbers
// are the drawing's, as dtsflow/native/core.py lists them.
#pragma once

#include <cmath>
#include <cstring>

#include "drawing.hpp"
#include "geometry.hpp"

namespace dtsflow {

// Windows, in choose_window.cpp.
void choose_resized_crop(const double *numbers, bool is_log, Draws &draws, Size size,
                         StepParams &params);
void choose_crop(const double *numbers, Draws &draws, Size size, StepParams &params);
void choose_centre(const double *numbers, Size size, StepParams &params);
void choose_square(Size size, StepParams &params);
void choose_whole(Size size, StepParams &params);
void choose_pad(const double *numbers, Size &size, StepParams &params);
void choose_erase(const double *numbers, Draws &draws, Size size, StepParams &params);

// Where pictures go, in choose_map.cpp.
void choose_rotation(const double *numbers, Draws &draws, Size size, StepParams &params);
void choose_affine(const double *numbers, Draws &draws, Size size, StepParams &params);
void choose_rescaling(const double *numbers, Draws &draws, Size size, StepParams &params);

struct Linear {
  double xx, xy, yx, yy;
};

// How a map is sampled, and the colour beyond the image; both packed as numbers.
struct Shown {
  double sampling, fill;
};

// dtsflow/po/affine.py's `maps`: a linear part about the middle of an image, which then moves
// to the right and down.
Map map_of(const Linear &linear, double right, double down, Size size, const Shown &shown);

// Changes of values, in choose_value.cpp.
void choose_jitter(const double *numbers, Draws &draws, StepParams &params);
void choose_blur(const double *numbers, Draws &draws, StepParams &params);
void choose_noise(const double *numbers, Draws &draws, StepParams &params);

// One of the fourteen augmentations, in choose_augmentation.cpp.
void choose_rand_augment(const double *numbers, Draws &draws, Size size, StepParams &params);
void choose_trivial_augment(const double *numbers, Draws &draws, Size size, StepParams &params);

// A configured length. The largest is far beyond what an image may have.
inline std::int64_t length(double number) {
  return static_cast<std::int64_t>(number < 0x1p32 ? number : 0x1p32);
}

// Height and width, which come first where a kind has them.
inline Size size_of(const double *numbers) { return {length(numbers[0]), length(numbers[1])}; }

inline std::int64_t nearest(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

// Uniform from `range[0]` on, as far as `range[1]` says.
inline double between(const double *range, double uniform) { return range[0] + uniform * range[1]; }

// Make a step's own numbers of a structure, from number `first` on.
template <typename Row>
void put(const Row &row, StepParams &params, int first = 0) {
  static_assert(sizeof(Row) % sizeof(std::int32_t) == 0);
  std::memcpy(params.own + first, &row, sizeof(Row));
}

// A colour, which is packed into a number: the first channel is the lowest byte.
inline void unpack_fill(double packed, std::uint8_t *fill) {
  const auto bytes = static_cast<std::uint32_t>(packed);
  for (int i = 0; i < 4; ++i) fill[i] = static_cast<std::uint8_t>(bytes >> 8 * i);
}

}  // namespace dtsflow

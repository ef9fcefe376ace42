#include <algorithm>
#include <cmath>

#include "choice.hpp"
#include "exact.hpp"

namespace dtsflow {
namespace {

constexpr double kPoint = 1 << 24;  // parts of a pixel that points are in
constexpr double kStill = 0.05;     // degrees: upstream leaves the image alone below

// dtsflow/po/affine.py's `backwards`.
Linear backwards(double angle, double factor, double shear_x, double shear_y) {
  const auto [sine, cosine] = exact_sin_cos(angle);
  const auto [sine_x, cosine_x] = exact_sin_cos(shear_x);
  const double cosine_y = exact_sin_cos(shear_y).cosine;
  const SinCos tilted = exact_sin_cos(angle - shear_y);
  const double tilted_sine = tilted.sine / cosine_y, tilted_cosine = tilted.cosine / cosine_y;
  const double slope = sine_x / cosine_x;
  return {(cosine - tilted_sine * slope) / factor, (sine + tilted_cosine * slope) / factor,
          -tilted_sine / factor, tilted_cosine / factor};
}

}  // namespace

Map map_of(const Linear &linear, double right, double down, Size size, const Shown &shown) {
  const double centre_x = static_cast<double>(size.width) * 0.5;
  const double centre_y = static_cast<double>(size.height) * 0.5;
  const auto sampling = static_cast<Sampling>(shown.sampling);
  const double middle = sampling == Sampling::corner ? 0.0 : 0.5;  // where the first pixel lies
  const double from_x = middle - centre_x - right, from_y = middle - centre_y - down;
  const double x0 = linear.xx * from_x + linear.xy * from_y + centre_x;
  const double y0 = linear.yx * from_x + linear.yy * from_y + centre_y;
  Map map{nearest(linear.xx * kPoint), nearest(linear.xy * kPoint), nearest(x0 * kPoint),
          nearest(linear.yx * kPoint), nearest(linear.yy * kPoint), nearest(y0 * kPoint),
          sampling, {}};
  unpack_fill(shown.fill, map.fill);
  return map;
}

void choose_rotation(const double *numbers, Draws &draws, Size size, StepParams &params) {
  double angle = between(numbers, draws.uniform(0));
  if (numbers[2] != 0 && std::fabs(angle) < kStill) angle = 0.0;
  const auto [sine, cosine] = exact_sin_cos(angle);
  put(map_of({cosine, -sine, sine, cosine}, 0.0, 0.0, size, {numbers[3], numbers[4]}), params);
}

void choose_affine(const double *numbers, Draws &draws, Size size, StepParams &params) {
  const double angle = between(numbers, draws.uniform(0));
  const auto move = [&](double far, std::int64_t side, int word) {
    return std::nearbyint(far * static_cast<double>(side) * (2.0 * draws.uniform(word) - 1.0));
  };
  const double right = move(numbers[2], size.width, 1), down = move(numbers[3], size.height, 2);
  const double factor = between(numbers + 4, draws.uniform(3));
  const double shear_x = between(numbers + 6, draws.uniform(4));
  const double shear_y = between(numbers + 8, draws.uniform(5));
  put(map_of(backwards(angle, factor, shear_x, shear_y), right, down, size,
             {numbers[10], numbers[11]}),
      params);
}

void choose_rescaling(const double *numbers, Draws &draws, Size size, StepParams &params) {
  const auto scaled = [&](std::int64_t side, int word) {
    const double ratio = between(numbers, draws.uniform(word));
    const double made = std::max(std::nearbyint(static_cast<double>(side) * ratio), 1.0);
    return static_cast<std::int32_t>(made);
  };
  const std::int32_t w = scaled(size.width, 0), h = scaled(size.height, 1);
  put(Rescaling{h, w, numbers[2] != 0}, params);
}

}  // namespace dtsflow

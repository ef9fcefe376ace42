#include <cmath>

#include "choice.hpp"
#include "exact.hpp"
#include "jitter.hpp"

namespace dtsflow {
namespace {

// Their numbers are those of dtsflow/po/augment.py.
enum Augmentation : int {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutocontrast,
  kEqualize,
  kCount
};

constexpr double kTranslate = 150.0 / 331.0;  // of a side
// The greatest magnitudes, but for those of RandAugment that a side's length gives.
constexpr double kMost[kCount] = {0, 0.3, 0.3, 0, 0, 30, 0.9, 0.9, 0.9, 0.9};
constexpr double kMostWide[kCount] = {0, 0.99, 0.99, 32, 32, 135, 0.99, 0.99, 0.99, 0.99};

struct Strength {
  double place, bins;
  double lost;  // bits that Posterize loses at the most
};

double magnitude_of(int which, double most, const Strength &strength) {
  const double part = strength.place / (strength.bins - 1);
  double found = part * most;
  if (which == kPosterize) found = 8.0 - std::nearbyint(part * strength.lost);
  if (which == kSolarize) found = 255.0 * (1.0 - part);
  return static_cast<float>(found);
}

bool is_signed(int which) { return which >= kShearX && which <= kSharpness; }

Map map_for(int which, double magnitude, Size size, const Shown &shown) {
  const auto [sine, cosine] = exact_sin_cos(which == kRotate ? magnitude : 0.0);
  const double slope_x = which == kShearX ? magnitude : 0.0;
  const double slope_y = which == kShearY ? magnitude : 0.0;
  // `map_of` shears about the centre; so far the corner would move then.
  const double right = which == kTranslateX ? std::trunc(magnitude)
                                            : -0.5 * slope_x * static_cast<double>(size.height);
  const double down = which == kTranslateY ? std::trunc(magnitude)
                                           : -0.5 * slope_y * static_cast<double>(size.width);
  return map_of({cosine, slope_x - sine, slope_y + sine, cosine}, right, down, size, shown);
}

void put_mix(int which, float factor, StepParams &params) {
  const int change = which == kBrightness ? 0 : which == kContrast ? 1 : 2;
  Jitter made{{change, -1, -1, -1}, {}, 0};
  made.factors[change] = factor;
  put(made, params, 1);
}

// The row of dtsflow/po/augment.py's `substeps`.
void put_substep(int which, double magnitude, Size size, const Shown &shown, StepParams &params) {
  const auto factor = static_cast<float>(1.0 + magnitude);
  const auto begin = [&](StepKind kind) { params.own[0] = static_cast<std::int32_t>(kind); };
  params.own[1] = 1;  // it happens
  switch (which) {
    case kShearX:
    case kShearY:
    case kTranslateX:
    case kTranslateY:
    case kRotate:
      begin(StepKind::warp);
      return put(map_for(which, magnitude, size, shown), params, 1);
    case kBrightness:
    case kColor:
    case kContrast:
      begin(StepKind::jitter);
      return put_mix(which, factor, params);
    case kSharpness:
      begin(StepKind::sharpen);
      return put(factor, params, 1);
    case kPosterize:
      begin(StepKind::posterize);
      return put(static_cast<std::int32_t>(magnitude), params, 1);
    case kSolarize:
      begin(StepKind::solarize);
      return put(static_cast<float>(magnitude), params, 1);
    case kAutocontrast:
      return begin(StepKind::autocontrast);
    case kEqualize:
      return begin(StepKind::equalize);
    default:
      params.own[0] = -1;  // nothing
  }
}

}  // namespace

void choose_rand_augment(const double *numbers, Draws &draws, Size size, StepParams &params) {
  const int word = static_cast<int>(numbers[0]);
  const auto which = static_cast<int>(draws.integer(word, kCount));
  double most = kMost[which];
  if (which == kTranslateX) most = kTranslate * static_cast<double>(size.width);
  if (which == kTranslateY) most = kTranslate * static_cast<double>(size.height);
  double magnitude = magnitude_of(which, most, {numbers[1], numbers[2], 4});
  if (is_signed(which) && draws.integer(word + 1, 2) == 1) magnitude = -magnitude;
  put_substep(which, magnitude, size, {numbers[3], numbers[4]}, params);
}

void choose_trivial_augment(const double *numbers, Draws &draws, Size size, StepParams &params) {
  const double bins = numbers[0];
  const auto which = static_cast<int>(draws.integer(0, kCount));
  const auto place = static_cast<double>(draws.integer(1, static_cast<std::int64_t>(bins)));
  double magnitude = magnitude_of(which, kMostWide[which], {place, bins, 6});
  if (is_signed(which) && draws.integer(2, 2) == 1) magnitude = -magnitude;
  put_substep(which, magnitude, size, {numbers[1], numbers[2]}, params);
}

}  // namespace dtsflow

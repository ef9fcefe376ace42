#include "drawing.hpp"

#include <algorithm>
#include <cmath>

namespace dtsflow {
namespace {

constexpr int kAttempts = 10, kWords = 4;  // as dtsflow/po/crop.py
constexpr int kTerms = 16, kHalvings = 4;  // as dtsflow/seed/exact.py

struct Series {
  double terms[kTerms];
};

constexpr Series exponential() {
  Series made{};
  double factorial = 1;  // exact: 15! is below 2^53
  for (int k = 0; k < kTerms; ++k) {
    if (k > 1) factorial *= k;
    made.terms[k] = 1 / factorial;
  }
  return made;
}

// dtsflow/seed/exact.py's exponential, whose bits no library decides.
double exact_exp(double power) {
  constexpr Series series = exponential();
  const double reduced = power * 0x1p-4;
  double result = series.terms[kTerms - 1];
  for (int k = kTerms - 2; k >= 0; --k) {
    result *= reduced;
    result += series.terms[k];
  }
  for (int i = 0; i < kHalvings; ++i) result *= result;
  return result;
}

std::int64_t nearest(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

// A configured length. The largest is far beyond what an image may have.
std::int64_t length(double number) { return static_cast<std::int64_t>(std::min(number, 0x1p32)); }

Size size_of(const Drawing &drawing) {
  return {length(drawing.numbers[0]), length(drawing.numbers[1])};
}

void set_window(StepParams &params, std::int64_t y, std::int64_t x, std::int64_t h,
                std::int64_t w) {
  params.y = static_cast<std::int32_t>(y);
  params.x = static_cast<std::int32_t>(x);
  params.h = static_cast<std::int32_t>(h);
  params.w = static_cast<std::int32_t>(w);
}

// The largest centred window of an allowed ratio.
void fall_back(const Drawing &drawing, const Size &size, StepParams &params) {
  const double narrowest = drawing.numbers[6], widest = drawing.numbers[7];
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  const double ratio = width / height;
  std::int64_t h = ratio < narrowest ? nearest(width / narrowest) : size.height;
  std::int64_t w = ratio > widest ? nearest(height * widest) : size.width;
  h = std::max<std::int64_t>(h, 1);
  w = std::max<std::int64_t>(w, 1);
  set_window(params, (size.height - h) >> 1, (size.width - w) >> 1, h, w);
}

void choose_resized_crop(const Drawing &drawing, Draws &draws, const Size &size,
                         StepParams &params) {
  const double *const numbers = drawing.numbers;
  const auto area = static_cast<double>(size.height * size.width);
  for (int word = 0; word < kAttempts * kWords; word += kWords) {
    double share = numbers[2] + draws.uniform(word) * numbers[3];
    if (drawing.kind == DrawKind::log_resized_crop) share = exact_exp(share);
    const double target = area * share;
    const double ratio = exact_exp(numbers[4] + draws.uniform(word + 1) * numbers[5]);
    const std::int64_t h = nearest(std::sqrt(target / ratio));
    const std::int64_t w = nearest(std::sqrt(target * ratio));
    if (h < 1 || h > size.height || w < 1 || w > size.width) continue;
    const std::int64_t x = draws.integer(word + 2, size.width - w + 1);
    const std::int64_t y = draws.integer(word + 3, size.height - h + 1);
    return set_window(params, y, x, h, w);
  }
  fall_back(drawing, size, params);
}

void choose_crop(const Drawing &drawing, Draws &draws, const Size &size, StepParams &params) {
  const double *const numbers = drawing.numbers;
  const Size window = size_of(drawing);
  const Size padded{size.height + length(numbers[4]), size.width + length(numbers[5])};
  std::int64_t down = std::max<std::int64_t>(window.height - padded.height, 0);
  std::int64_t across = std::max<std::int64_t>(window.width - padded.width, 0);
  if (numbers[6] != 0) down = across = std::max(down, across);
  const std::int64_t y = draws.integer(0, padded.height + 2 * down - window.height + 1);
  const std::int64_t x = draws.integer(1, padded.width + 2 * across - window.width + 1);
  set_window(params, y - length(numbers[2]) - down, x - length(numbers[3]) - across,
             window.height, window.width);
}

// An odd margin puts the window at the even one of its two places, an odd padding goes
// to the right and the bottom.
std::int64_t centre(std::int64_t side, std::int64_t window) {
  const std::int64_t margin = side - window;
  if (margin < 0) return -(-margin / 2);
  return margin / 2 + (margin & (margin / 2) & 1);
}

}  // namespace

void choose(const Drawing &drawing, Draws &draws, Size &size, StepParams &params) {
  switch (drawing.kind) {
    case DrawKind::resized_crop:
    case DrawKind::log_resized_crop:
      choose_resized_crop(drawing, draws, size, params);
      break;
    case DrawKind::crop:
      choose_crop(drawing, draws, size, params);
      break;
    case DrawKind::centre_crop: {
      const Size window = size_of(drawing);
      set_window(params, centre(size.height, window.height), centre(size.width, window.width),
                 window.height, window.width);
      break;
    }
    case DrawKind::flip:
      params.y = draws.uniform(0) < drawing.numbers[0];
      return;
    case DrawKind::resize_short: {
      set_window(params, 0, 0, size.height, size.width);
      const std::int64_t side = size_of(drawing).height, shorter = std::min(size.height, size.width);
      size = {side * size.height / shorter, side * size.width / shorter};
      return;
    }
    case DrawKind::resize_exact:
      set_window(params, 0, 0, size.height, size.width);
      break;
    case DrawKind::resize_square: {
      const std::int64_t side = std::min(size.height, size.width);
      set_window(params, (size.height - side) / 2, (size.width - side) / 2, side, side);
      break;
    }
  }
  size = size_of(drawing);
}

}  // namespace dtsflow

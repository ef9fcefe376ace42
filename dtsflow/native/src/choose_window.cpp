#include <algorithm>
#include <cmath>

#include "choice.hpp"
#include "exact.hpp"

namespace dtsflow {
namespace {

constexpr int kAttempts = 10, kWords = 4;  // as dtsflow/po/crop.py and erasing.py

void set_window(StepParams &params, std::int64_t y, std::int64_t x, std::int64_t h,
                std::int64_t w) {
  params.y = static_cast<std::int32_t>(y);
  params.x = static_cast<std::int32_t>(x);
  params.h = static_cast<std::int32_t>(h);
  params.w = static_cast<std::int32_t>(w);
}

// Make a window one with a border, from its kind and its colour; of zeros it is plain.
void add_border(const double *numbers, StepParams &params) {
  if (numbers[0] == 0 && numbers[1] == 0) return;
  Frame frame{params.y, params.x, params.h, params.w, static_cast<Border>(numbers[0]), {}};
  unpack_fill(numbers[1], frame.fill);
  set_window(params, 0, 0, 0, 0);
  put(frame, params);
}

// The largest centred window of an allowed ratio.
void fall_back(double narrowest, double widest, const Size &size, StepParams &params) {
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  const double ratio = width / height;
  std::int64_t h = ratio < narrowest ? nearest(width / narrowest) : size.height;
  std::int64_t w = ratio > widest ? nearest(height * widest) : size.width;
  h = std::max<std::int64_t>(h, 1);
  w = std::max<std::int64_t>(w, 1);
  set_window(params, (size.height - h) >> 1, (size.width - w) >> 1, h, w);
}

// An odd margin puts the window at the even one of its two places, an odd padding goes
// to the right and the bottom.
std::int64_t centre(std::int64_t side, std::int64_t window, bool is_first) {
  const std::int64_t margin = side - window;
  if (margin < 0) return -(-margin / 2);
  return margin / 2 + (is_first ? 0 : margin & (margin / 2) & 1);
}

}  // namespace

void choose_resized_crop(const double *numbers, bool is_log, Draws &draws, Size size,
                         StepParams &params) {
  const auto area = static_cast<double>(size.height * size.width);
  for (int word = 0; word < kAttempts * kWords; word += kWords) {
    double share = between(numbers + 2, draws.uniform(word));
    if (is_log) share = exact_exp(share);
    const double target = area * share;
    const double ratio = exact_exp(between(numbers + 4, draws.uniform(word + 1)));
    const std::int64_t h = nearest(std::sqrt(target / ratio));
    const std::int64_t w = nearest(std::sqrt(target * ratio));
    if (h < 1 || h > size.height || w < 1 || w > size.width) continue;
    const std::int64_t x = draws.integer(word + 2, size.width - w + 1);
    const std::int64_t y = draws.integer(word + 3, size.height - h + 1);
    return set_window(params, y, x, h, w);
  }
  fall_back(numbers[6], numbers[7], size, params);
}

void choose_crop(const double *numbers, Draws &draws, Size size, StepParams &params) {
  const Size window = size_of(numbers);
  const Size padded{size.height + length(numbers[4]), size.width + length(numbers[5])};
  std::int64_t down = std::max<std::int64_t>(window.height - padded.height, 0);
  std::int64_t across = std::max<std::int64_t>(window.width - padded.width, 0);
  if (numbers[6] != 0) down = across = std::max(down, across);
  const std::int64_t y = draws.integer(0, padded.height + 2 * down - window.height + 1);
  const std::int64_t x = draws.integer(1, padded.width + 2 * across - window.width + 1);
  set_window(params, y - length(numbers[2]) - down, x - length(numbers[3]) - across,
             window.height, window.width);
  add_border(numbers + 7, params);
}

void choose_centre(const double *numbers, Size size, StepParams &params) {
  const Size window = size_of(numbers);
  const bool is_first = numbers[2] != 0;
  set_window(params, centre(size.height, window.height, is_first),
             centre(size.width, window.width, is_first), window.height, window.width);
}

void choose_square(Size size, StepParams &params) {
  const std::int64_t side = std::min(size.height, size.width);
  set_window(params, (size.height - side) / 2, (size.width - side) / 2, side, side);
}

void choose_whole(Size size, StepParams &params) {
  set_window(params, 0, 0, size.height, size.width);
}

void choose_pad(const double *numbers, Size &size, StepParams &params) {
  size.height += length(numbers[2]);
  size.width += length(numbers[3]);
  set_window(params, -length(numbers[0]), -length(numbers[1]), size.height, size.width);
  add_border(numbers + 4, params);
}

void choose_erase(const double *numbers, Draws &draws, Size size, StepParams &params) {
  if (!(draws.uniform(0) < numbers[0])) return;
  const auto area = static_cast<double>(size.height * size.width);
  for (int word = 1; word <= kAttempts * kWords; word += kWords) {
    const double target = area * between(numbers + 1, draws.uniform(word));
    const double ratio = exact_exp(between(numbers + 3, draws.uniform(word + 1)));
    const std::int64_t h = nearest(std::sqrt(target * ratio));
    const std::int64_t w = nearest(std::sqrt(target / ratio));
    if (h < 1 || h >= size.height || w < 1 || w >= size.width) continue;
    const std::int64_t y = draws.integer(word + 2, size.height - h + 1);
    const std::int64_t x = draws.integer(word + 3, size.width - w + 1);
    return set_window(params, y, x, h, w);
  }
}

}  // namespace dtsflow

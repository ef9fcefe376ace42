#include <algorithm>
#include <cmath>

#include "choice.hpp"
#include "exact.hpp"
#include "jitter.hpp"

namespace dtsflow {
namespace {

constexpr int kMostRadius = 29;

struct Blur {
  std::int32_t radius;
  std::int16_t weights[kMostRadius + 1];
};

// Permutation `number` of 0, 1, 2, 3, counted as in a dictionary.
void set_order(std::int64_t number, std::int32_t *order) {
  std::int32_t left[4] = {0, 1, 2, 3};
  std::int64_t count = 6;  // permutations of what then remains
  for (int place = 0; place < 4; ++place) {
    std::int32_t *const next = left + number / count;
    order[place] = *next;
    std::copy(next + 1, left + 4 - place, next);
    number %= count;
    count /= std::max(3 - place, 1);
  }
}

}  // namespace

void choose_jitter(const double *numbers, Draws &draws, StepParams &params) {
  const auto happens = static_cast<unsigned>(numbers[8]);
  Jitter made{};
  set_order(draws.integer(0, 24), made.order);
  for (std::int32_t &change : made.order) {
    if (!(happens >> change & 1)) change = -1;
  }
  for (int change = 0; change < 3; ++change) {
    made.factors[change] =
        static_cast<float>(between(numbers + 2 * change, draws.uniform(1 + change)));
  }
  made.hue = static_cast<std::int32_t>(between(numbers + 6, draws.uniform(4)) * 255) & 255;
  put(made, params);
}

void choose_blur(const double *numbers, Draws &draws, StepParams &params) {
  constexpr double kOne = 1 << 14, kLimit = 8.0;
  const double sigma = between(numbers, draws.uniform(0));
  const int radius = std::min(static_cast<int>(numbers[2]), kMostRadius);
  double heights[kMostRadius + 1];
  for (int distance = 0; distance <= radius; ++distance) {
    const double power = static_cast<double>(distance * distance) / (2.0 * sigma * sigma);
    const double quarter = std::min(power / 4, kLimit);
    double height = exact_exp(-quarter);
    height *= height;
    height *= height;
    heights[distance] = quarter == kLimit ? 0.0 : height;
  }
  double total = heights[0];
  for (int distance = 1; distance <= radius; ++distance) total += 2.0 * heights[distance];
  Blur made{radius, {}};
  int rest = 1 << 14;
  for (int distance = 1; distance <= radius; ++distance) {
    const auto weight = static_cast<std::int16_t>(nearest(heights[distance] * kOne / total));
    made.weights[distance] = weight;
    rest -= 2 * weight;
  }
  made.weights[0] = static_cast<std::int16_t>(rest);
  put(made, params);
}

void choose_noise(const double *numbers, Draws &draws, StepParams &params) {
  struct {
    std::uint32_t key[2];
    float mean, sigma;
  } made{{draws.word(0), draws.word(1)},
         static_cast<float>(numbers[0]),
         static_cast<float>(numbers[1])};
  put(made, params);
}

}  // namespace dtsflow

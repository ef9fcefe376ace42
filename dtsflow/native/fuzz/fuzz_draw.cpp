// The draws of a chain, for an image of any size: what the core takes for its own has
// windows that the images have, and sizes that an image may have.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <fuzzer/FuzzedDataProvider.h>

#include "expect.hpp"
#include "jpeg_header.hpp"
#include "recipe.hpp"

namespace {

using namespace dtsflow;

constexpr int kSteps = 4;

// A side or a margin as the configuration may have it: mostly small, or without any limit.
double length(FuzzedDataProvider &provider, int least) {
  if (provider.ConsumeIntegralInRange(0, 15) == 0) return provider.ConsumeFloatingPointInRange(1.0, 1e18);
  return provider.ConsumeIntegralInRange(least, 1 << provider.ConsumeIntegralInRange(1, 15));
}

// Two numbers between `low` and `high`, the smaller one first.
std::pair<double, double> range(FuzzedDataProvider &provider, double low, double high) {
  const double one = provider.ConsumeFloatingPointInRange(low, high);
  return {one, provider.ConsumeFloatingPointInRange(one, high)};
}

Drawing choose_drawing(FuzzedDataProvider &provider) {
  Drawing made{static_cast<DrawKind>(provider.ConsumeIntegralInRange(0, kDrawKinds - 1)),
               provider.ConsumeIntegral<std::uint16_t>(), {}};
  double *const numbers = made.numbers;
  numbers[0] = length(provider, 1);
  numbers[1] = length(provider, 1);
  if (made.kind == DrawKind::flip) numbers[0] = provider.ConsumeFloatingPointInRange(0.0, 1.0);
  if (made.kind == DrawKind::crop) {
    const double above = length(provider, 0), left = length(provider, 0);
    const double more[] = {above, left, above + length(provider, 0), left + length(provider, 0)};
    std::copy(more, more + 4, numbers + 2);
    numbers[6] = provider.ConsumeBool();
  }
  if (made.kind == DrawKind::resized_crop || made.kind == DrawKind::log_resized_crop) {
    const bool is_log = made.kind == DrawKind::log_resized_crop;
    const auto shares = range(provider, is_log ? std::log(1e-3) : 1e-300, is_log ? 0.0 : 1.0);
    const auto ratios = range(provider, 1e-3, 1e3);
    const double more[] = {shares.first, shares.second - shares.first, std::log(ratios.first),
                           std::log(ratios.second) - std::log(ratios.first), ratios.first,
                           ratios.second};
    std::copy(more, more + 6, numbers + 2);
  }
  return made;
}

bool is_scaled(DrawKind kind) {
  return kind != DrawKind::crop && kind != DrawKind::centre_crop && kind != DrawKind::flip;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  FuzzedDataProvider provider(data, size);
  Size now{provider.ConsumeIntegralInRange<std::int64_t>(1, 65535),
           provider.ConsumeIntegralInRange<std::int64_t>(1, 65535)};
  if (now.height * now.width > kMaxPixels) return 0;
  const Address address{provider.ConsumeIntegral<std::uint32_t>(), provider.ConsumeIntegral<std::uint32_t>(),
                        provider.ConsumeIntegral<std::uint32_t>(), 1u << 24};
  const auto id = provider.ConsumeIntegralInRange<std::int64_t>(-1, std::int64_t{1} << kIdBits);
  std::vector<Drawing> drawings;
  const int steps = provider.ConsumeIntegralInRange(0, kSteps);
  for (int i = 0; i < steps; ++i) drawings.push_back(choose_drawing(provider));
  const bool shrinks = steps > 0 && is_scaled(drawings[0].kind) && provider.ConsumeBool();
  const Program program(std::vector<StepKind>(drawings.size(), StepKind::crop), true, 3, 3,
                        Cast::uint8, nullptr, nullptr, nullptr);
  const Recipe recipe(program, drawings, {{}, false, shrinks}, {1, 1});
  StepParams params[kSteps];
  if (recipe.draw(now, id, address, params) != Status::ok) return 0;
  for (int i = 0; i < steps; ++i) {
    const StepParams &p = params[i];
    if (is_scaled(drawings[static_cast<std::size_t>(i)].kind)) {
      const std::int64_t part = i == 0 ? p.scale : 1;
      const std::int64_t height = (now.height + part - 1) / part, width = (now.width + part - 1) / part;
      expect(p.y >= 0 && p.x >= 0 && p.h >= 1 && p.w >= 1 && p.y + p.h <= height && p.x + p.w <= width,
             "what is scaled lies in the image");
      expect(part == 1 || (p.h >= p.out_h && p.w >= p.out_w), "what is decoded smaller is not enlarged");
    }
    now = {p.out_h, p.out_w};
    expect(now.height >= 1 && now.width >= 1 && now.height * now.width <= kMaxPixels,
           "what comes out is an image");
  }
  return 0;
}

// The draws of a chain, for an image of any size: what the core takes for its own has
// windows that the images have, and sizes that an image may have.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <fuzzer/FuzzedDataProvider.h>

#include "drawings.hpp"
#include "expect.hpp"
#include "jpeg_header.hpp"

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

// As a drawing has it: where it begins, and how far it reaches.
class Numbers {
 public:
  Numbers(FuzzedDataProvider &provider, double *at) : provider_(provider), at_(at) {}

  void add(double number) { *at_++ = number; }
  void add_range(double low, double high) {
    const auto [first, last] = range(provider_, low, high);
    add(first);
    add(last - first);
  }
  void add_logs(double low, double high) { add_range(std::log(low), std::log(high)); }
  void add_colour(int kinds) {
    add(provider_.ConsumeIntegralInRange(0, kinds - 1));
    add(provider_.ConsumeIntegral<std::uint32_t>());
  }
  // Above, on the left, in height and in width.
  void add_margins() {
    const double above = length(provider_, 0), left = length(provider_, 0);
    for (const double number : {above, left, above + length(provider_, 0), left + length(provider_, 0)}) {
      add(number);
    }
  }

 private:
  FuzzedDataProvider &provider_;
  double *at_;
};

void choose_numbers(FuzzedDataProvider &provider, DrawKind kind, double *at) {
  Numbers numbers(provider, at);
  switch (kind) {
    case DrawKind::pad:
      numbers.add_margins();
      return numbers.add_colour(4);
    case DrawKind::erase:
      numbers.add(provider.ConsumeFloatingPointInRange(0.0, 1.0));
      numbers.add_range(1e-300, 1.0);
      return numbers.add_logs(1e-3, 1e3);
    case DrawKind::flip:
    case DrawKind::chance:
      return numbers.add(provider.ConsumeFloatingPointInRange(0.0, 1.0));
    case DrawKind::jitter:
      for (int change = 0; change < 3; ++change) numbers.add_range(0.0, 1e4);
      numbers.add_range(-0.5, 0.5);
      return numbers.add(provider.ConsumeIntegralInRange(0, 15));
    case DrawKind::rotate:
      numbers.add_range(-360.0, 360.0);
      numbers.add(provider.ConsumeBool());
      return numbers.add_colour(3);
    case DrawKind::affine:
      numbers.add_range(-360.0, 360.0);
      for (int side = 0; side < 2; ++side) numbers.add(provider.ConsumeFloatingPointInRange(0.0, 1.0));
      numbers.add_range(0.01, 100.0);
      for (int axis = 0; axis < 2; ++axis) numbers.add_range(-80.0, 80.0);
      return numbers.add_colour(3);
    case DrawKind::rescale:
      numbers.add_range(1e-300, 10.0);
      return numbers.add(provider.ConsumeBool());
    case DrawKind::blur:
      numbers.add_range(1e-3, 1e3);
      return numbers.add(provider.ConsumeIntegralInRange(0, 29));
    case DrawKind::noise:
      numbers.add(provider.ConsumeFloatingPointInRange(-255.0, 255.0));
      return numbers.add(provider.ConsumeFloatingPointInRange(0.0, 1e4));
    case DrawKind::rand_augment:
    case DrawKind::trivial_augment: {
      const int bins = provider.ConsumeIntegralInRange(2, 1 << 16);
      if (kind == DrawKind::rand_augment) {
        numbers.add(2 * provider.ConsumeIntegralInRange(0, 15));
        numbers.add(provider.ConsumeIntegralInRange(0, bins - 1));
      }
      numbers.add(bins);
      return numbers.add_colour(2);
    }
    default:
      break;
  }
  for (int side = 0; side < 2; ++side) numbers.add(length(provider, 1));
  if (kind == DrawKind::crop) {
    numbers.add_margins();
    numbers.add(provider.ConsumeBool());
    numbers.add_colour(4);
  }
  if (kind == DrawKind::centre_crop) numbers.add(provider.ConsumeBool());
  if (kind == DrawKind::resized_crop || kind == DrawKind::log_resized_crop) {
    const bool is_log = kind == DrawKind::log_resized_crop;
    numbers.add_range(is_log ? std::log(1e-3) : 1e-300, is_log ? 0.0 : 1.0);
    const auto [low, high] = range(provider, 1e-3, 1e3);
    for (const double number : {std::log(low), std::log(high) - std::log(low), low, high}) numbers.add(number);
  }
}

Drawing choose_drawing(FuzzedDataProvider &provider) {
  Drawing made{static_cast<DrawKind>(provider.ConsumeIntegralInRange(0, kDrawKinds - 1)),
               provider.ConsumeIntegral<std::uint16_t>(), {}};
  choose_numbers(provider, made.kind, made.numbers);
  return made;
}

bool is_scaled(DrawKind kind) {
  return kind == DrawKind::resized_crop || kind == DrawKind::log_resized_crop ||
         kind == DrawKind::resize_short || kind == DrawKind::resize_exact ||
         kind == DrawKind::resize_square;
}

// What a step's own numbers say must be something that the step can do.
void check_own(const Drawing &drawing, const StepParams &p, const Size &entering) {
  if (drawing.kind == DrawKind::erase) {
    expect(p.y >= 0 && p.x >= 0 && p.y + p.h <= entering.height && p.x + p.w <= entering.width,
           "what is erased lies in the image");
  }
  if (drawing.kind == DrawKind::blur) {
    std::int16_t weights[30];
    std::memcpy(weights, p.own + 1, sizeof weights);
    int total = weights[0];
    for (int i = 1; i < 30; ++i) {
      expect(weights[i] >= 0, "no weight is negative");
      total += 2 * weights[i];
    }
    expect(total == 1 << 14, "the weights of a blur are one");
  }
  if (drawing.kind == DrawKind::rescale) {
    expect(p.own[0] >= 1 && p.own[1] >= 1, "what is scaled keeps a pixel");
  }
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
  StepParams params[kSteps];
  if (Drawings(drawings).draw(now, id, address, shrinks, params) != Status::ok) return 0;
  for (int i = 0; i < steps; ++i) {
    const StepParams &p = params[i];
    if (is_scaled(drawings[static_cast<std::size_t>(i)].kind)) {
      const std::int64_t part = i == 0 ? p.scale : 1;
      const std::int64_t height = (now.height + part - 1) / part, width = (now.width + part - 1) / part;
      expect(p.y >= 0 && p.x >= 0 && p.h >= 1 && p.w >= 1 && p.y + p.h <= height && p.x + p.w <= width,
             "what is scaled lies in the image");
      expect(part == 1 || (p.h >= p.out_h && p.w >= p.out_w), "what is decoded smaller is not enlarged");
    }
    check_own(drawings[static_cast<std::size_t>(i)], p, now);
    now = {p.out_h, p.out_w};
    expect(now.height >= 1 && now.width >= 1 && now.height * now.width <= kMaxPixels,
           "what comes out is an image");
  }
  return 0;
}

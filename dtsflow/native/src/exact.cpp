#include "exact.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace dtsflow {
namespace {

constexpr int kHalvings = 4;
constexpr double kRadian = 0.017453292519943295;  // pi / 180

// 1 / k!, a correctly rounded quotient: factorials are exact up to 18!.
constexpr double inverse_factorial(int k) {
  double factorial = 1;
  for (int i = 2; i <= k; ++i) factorial *= i;
  return 1 / factorial;
}

constexpr std::array<double, 16> exponential() {
  std::array<double, 16> terms{};
  for (int k = 0; k < 16; ++k) terms[static_cast<std::size_t>(k)] = inverse_factorial(k);
  return terms;
}

// Of sin(x) / x (`odd` is 1) or cos(x), by powers of x^2 and without their ones.
template <std::size_t kCount>
constexpr std::array<double, kCount> circular(int odd) {
  std::array<double, kCount> terms{};
  for (std::size_t i = 0; i < kCount; ++i) {
    const int k = static_cast<int>(i) + 1;
    terms[i] = (k % 2 ? -1 : 1) * inverse_factorial(2 * k + odd);
  }
  return terms;
}

template <std::size_t kCount>
double series(const std::array<double, kCount> &terms, double x) {
  double total = terms[kCount - 1];
  for (std::size_t k = kCount - 1; k-- > 0;) {
    total *= x;
    total += terms[k];
  }
  return total;
}

}  // namespace

double exact_exp(double power) {
  static constexpr auto kTerms = exponential();
  double result = series(kTerms, power * 0x1p-4);
  for (int i = 0; i < kHalvings; ++i) result *= result;
  return result;
}

SinCos exact_sin_cos(double degrees) {
  static constexpr auto kSine = circular<8>(1);
  static constexpr auto kCosine = circular<9>(0);
  const double turns = std::nearbyint(degrees / 90.0);
  const double rest = (degrees - turns * 90.0) * kRadian;
  const double square = rest * rest;
  double sine = rest + rest * (square * series(kSine, square));
  double cosine = 1.0 + square * series(kCosine, square);
  const auto quarter = static_cast<std::int64_t>(turns) & 3;
  if (quarter & 1) {
    const double other = sine;
    sine = cosine;
    cosine = other;
  }
  if (quarter > 1) sine = -sine;
  if (quarter == 1 || quarter == 2) cosine = -cosine;
  return {sine + 0.0, cosine + 0.0};  // -0.0 becomes 0.0
}

}  // namespace dtsflow

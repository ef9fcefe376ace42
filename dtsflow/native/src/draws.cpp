#include "draws.hpp"

namespace dtsflow {

void philox(const std::uint32_t *counters, std::size_t count, std::uint32_t key0,
            std::uint32_t key1, std::uint32_t *words) {
  // The multipliers and key increments that the algorithm's authors chose (Random123).
  constexpr std::uint64_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (std::size_t i = 0; i < count; ++i, counters += 4, words += 4) {
    std::uint32_t c0 = counters[0], c1 = counters[1], c2 = counters[2], c3 = counters[3];
    std::uint32_t k0 = key0, k1 = key1;
    for (int round = 0; round < 10; ++round, k0 += kWeyl0, k1 += kWeyl1) {
      const std::uint64_t a = kMul0 * c0, b = kMul1 * c2;
      const std::uint32_t n0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
      const std::uint32_t n2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(b);
      c3 = static_cast<std::uint32_t>(a);
      c0 = n0;
      c2 = n2;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
  }
}

Draws::Draws(const Address &address, std::int64_t id, std::uint32_t position)
    : address_(address),
      counter_{static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(id >> 32) << 24,
               address.epoch, address.purpose + position} {}

std::uint32_t Draws::word(int k) {
  if (k / 4 != block_) {
    block_ = k / 4;
    std::uint32_t counter[4] = {counter_[0], counter_[1] + static_cast<std::uint32_t>(block_),
                                counter_[2], counter_[3]};
    philox(counter, 1, address_.key0, address_.key1, words_);
  }
  return words_[k % 4];
}

}  // namespace dtsflow

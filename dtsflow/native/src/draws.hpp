// Addressed random numbers: what each draw is, whoever makes it and when.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtsflow {

// Philox4x32-10: `words` receives 4 words for each of `count` counters of 4 words.
void philox(const std::uint32_t *counters, std::size_t count, std::uint32_t key0,
            std::uint32_t key1, std::uint32_t *words);

// Where the draws of a pass lie; dtsflow/seed/address.py has the layout. `purpose` is the
// fourth word of a counter, for the operation at position 0.
struct Address {
  std::uint32_t key0, key1, epoch, purpose;
};

// An id has no more bits than this in an address.
inline constexpr int kIdBits = 40;

// What one operation draws for one sample. Draws are numbered, not consumed; those of a
// block of four are made together, when one of them is asked for.
class Draws {
 public:
  Draws(const Address &address, std::int64_t id, std::uint32_t position);

  // Draw number `k` in [0, 1), a multiple of 2^-24.
  double uniform(int k) { return (word(k) >> 8) * 0x1p-24; }

  // Draw number `k` as a whole number in [0, bound), bound from 1 to 2^32.
  std::int64_t integer(int k, std::int64_t bound) {
    return static_cast<std::int64_t>(word(k) * static_cast<std::uint64_t>(bound) >> 32);
  }

  // Draw number `k` as it is.
  std::uint32_t word(int k);

 private:
  Address address_;
  std::uint32_t counter_[4];
  std::uint32_t words_[4];
  int block_ = -1;
};

}  // namespace dtsflow

// Mixing the rows of a lane in pairs, in place: see dtsflow/po/mixup.py.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "write.hpp"

namespace dtsflow {

// Rows, and which one each is mixed with; a row that is its own partner stays as it is.
class Lane {
 public:
  // Nothing where `partners` are not all of the rows, each once.
  static std::optional<Lane> of(std::uint8_t *rows, std::int64_t row_bytes,
                                const std::int64_t *partners, std::int64_t count);

  // Each element becomes `share` of itself and 1 - `share` of the partner's: in single
  // precision both products are rounded, then their sum, then that to the element.
  void blend(Cast cast, float share) const;

  // The partner's bytes from `first` on, `bytes` of each of `lines` that are `stride` apart.
  void paste(std::int64_t first, std::int64_t bytes, std::int64_t lines, std::int64_t stride) const;

 private:
  Lane(std::uint8_t *rows, std::int64_t row_bytes, const std::int64_t *partners)
      : rows_(rows), row_bytes_(row_bytes), partners_(partners) {}

  template <typename Change>
  void walk(std::int64_t first, std::int64_t bytes, const Change &change) const;

  std::uint8_t *rows_;
  std::int64_t row_bytes_;
  const std::int64_t *partners_;
  std::vector<std::int64_t> rings_;  // one row of each ring of partners
};

}  // namespace dtsflow

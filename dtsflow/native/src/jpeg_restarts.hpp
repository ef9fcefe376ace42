// Restart markers for a JPEG that lacks them, so that parts of it can be decoded alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.hpp"

namespace dtsflow {

// Write a JPEG again, baseline, with a restart marker about every 64 pixels of a row of
// blocks. Coefficients, tables of quantisation, metadata and so all pixels stay the same;
// what was written is read again to be sure. False where it cannot be: `data` is damaged,
// one that only the reference decodes, or its bytes would double.
bool add_restarts(const std::uint8_t *data, std::size_t size, Buffer<std::uint8_t> &out,
                  std::size_t &made);

}  // namespace dtsflow

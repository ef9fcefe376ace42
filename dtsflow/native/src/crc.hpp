// CRC-32 of bytes in memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtsflow {

// zlib's CRC-32 of `size` bytes; `value` is the CRC-32 of what comes before them, 0 if
// nothing does. `data` may be null where `size` is 0.
std::uint32_t crc32(const std::uint8_t *data, std::size_t size, std::uint32_t value);

}  // namespace dtsflow

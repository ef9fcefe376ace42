// The header of a JPEG, read without a decoder.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtsflow {

// No image may have more; dtsflow/decode/decoder.py has the same.
inline constexpr std::int64_t kMaxPixels = 178'956'970;

struct JpegFacts {
  int height = 0;
  int width = 0;
  bool exif = false;  // there is EXIF metadata, so perhaps an orientation
};

// Read a JPEG's header and check that the file is whole, by the same rules as the
// reference (dtsflow/decode/jpeg_header.py). False for whatever those rules refuse and whatever
// is not decoded here (no JPEG, arithmetic coding, 12 bits, four components, uncommon
// sampling): the reference then decodes it, or says what is wrong with it.
bool read_jpeg(const std::uint8_t *data, std::size_t size, JpegFacts &facts);

}  // namespace dtsflow

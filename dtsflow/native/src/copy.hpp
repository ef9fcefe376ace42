// Pixels copied as they are: mirrored or not, with zeros behind each one or not.
#pragma once

#include "buffer.hpp"

namespace dtsflow {

// Copy `view`, left to right mirrored or not, to rows that lie `stride` bytes apart, a pixel
// of `stored` channels each. `view` must be readable kSlack bytes past its end; nothing
// behind the pixels of a row is written.
void copy_pixels(const View &view, bool mirrored, int stored, std::uint8_t *out,
                 std::ptrdiff_t stride);

}  // namespace dtsflow

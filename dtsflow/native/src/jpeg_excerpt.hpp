// The part of a JPEG that a window needs, as a JPEG of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "window.hpp"

namespace dtsflow {

// Coded data can be entered at a restart marker and nowhere else. Where those markers cut
// every row of blocks into equal parts, the parts around a window are a smaller JPEG, with
// the same pixels: what lies beside and above the window need not be decoded.
class JpegExcerpt {
 public:
  // Cut out what holds `window` of an image of `height` x `width`. False where nothing can
  // be left out, or where anything about the JPEG is unusual: it is decoded whole then.
  bool cut(const std::uint8_t *data, std::size_t size, int height, int width,
           const Window &window);

  const std::uint8_t *data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }
  // Where the excerpt lies in the image.
  const Window &place() const { return place_; }

 private:
  Buffer<std::uint8_t> bytes_;
  Buffer<std::size_t> parts_;  // where each part of the coded data begins, and the end
  std::size_t size_ = 0;
  Window place_;
};

}  // namespace dtsflow

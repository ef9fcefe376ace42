// Decode a region of a JPEG to RGB, exactly as the full decode has it there.
#pragma once

#include "buffer.hpp"
#include "jpeg_excerpt.hpp"
#include "status.hpp"
#include "window.hpp"

namespace dtsflow {

// A decompressor that one thread keeps; the object libjpeg-turbo works on.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder &) = delete;
  JpegDecoder &operator=(const JpegDecoder &) = delete;

  // Decode `window` of the image of `height` x `width` that the header claims, at one
  // part in `scale` (1, 2, 4 or 8) of its size: `window` lies in the scaled image, whose
  // sides are rounded up. `out` views scratch of this decoder, until the next call.
  Status decode(const std::uint8_t *data, std::size_t size, int height, int width, int scale,
                const Window &window, View &out);

 private:
  Status decode_or_give_up(const std::uint8_t *data, std::size_t size, int height, int width,
                           int scale, const Window &window, View &out);

  Status decode_all(const std::uint8_t *data, std::size_t size, int height, int width, int scale,
                    const Window &window, View &out);

  struct Library;
  Library *library_;
  JpegExcerpt excerpt_;
  Buffer<std::uint8_t> pixels_;
};

}  // namespace dtsflow

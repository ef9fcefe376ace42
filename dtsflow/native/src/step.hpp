// One step of a chain: what it is told, and the images that steps make.
#pragma once

#include <cstdint>

#include "buffer.hpp"
#include "resample.hpp"
#include "status.hpp"

namespace dtsflow {

// The numbers are part of the interface: dtsflow/native/core.py names them too.
enum class StepKind : int {
  scale = 0,  // cut the window, then scale it antialiased
  scale_plain = 1,
  crop = 2,    // cut the window, zeros where it leaves the image
  mirror = 3,  // left to right where the first parameter is not 0
  erase = 4,   // the window of what is written becomes zeros
  flip_rows = 16,  // these four: see geometry.hpp
  place = 17,
  warp = 18,
  rescale = 19,
  jitter = 32,  // see jitter.hpp; the others are in tone.hpp or a file of their name
  grayscale = 33,
  autocontrast = 34,
  blur = 35,
  noise = 36,
  posterize = 37,
  solarize = 38,
  equalize = 39,
  sharpen = 40,
  augment = 48,
};

// Of an image or a window: bytes of a row, twice the taps of an axis and the like fit an int.
inline constexpr int kMostSide = 1 << 24;
inline constexpr int kOwnNumbers = 16;
inline constexpr int kNormals = 1 << 15;  // quantiles of the upper half, in 1/4096

// One sample's parameters of one step: the window, the size of what comes out, in the
// first step of a JPEG the one part in `scale` (1, 2, 4, 8) that it is decoded at (the
// window then lies in the scaled image), and the bytes of the operation's own parameters.
struct StepParams {
  std::int32_t y, x, h, w, out_h, out_w, scale;
  std::int32_t own[kOwnNumbers];
};

// Two images that steps make in turn, so that none is made where its source lies.
class Images {
 public:
  // Room for an image that becomes `made`, other than the one before it; nullptr where
  // there is no memory. Rows begin on 64 bytes, and may be overrun by kSlack bytes.
  std::uint8_t *next(int height, int width, int channels, View &made) {
    turn_ ^= 1;
    return shape(two_[turn_], height, width, channels, made);
  }

  // The same in a buffer of the caller's.
  static std::uint8_t *shape(Buffer<std::uint8_t> &buffer, int height, int width, int channels,
                             View &made) {
    made.stride = (static_cast<std::ptrdiff_t>(width) * channels + 63) / 64 * 64;
    made.height = height;
    made.width = width;
    made.channels = channels;
    std::uint8_t *const data = buffer.room(static_cast<std::size_t>(made.stride * height));
    made.data = data;
    return data;
  }

 private:
  Buffer<std::uint8_t> two_[2];
  int turn_ = 0;
};

// What the families of steps keep from sample to sample.
struct StepScratch {
  Images images;
  ResampleScratch resample;
  Buffer<int> columns;                    // place: where each column comes from
  Buffer<std::int16_t> line;              // blur: one row between its two passes
  const std::int16_t *normals = nullptr;  // noise: the program's, kNormals of them
};

}  // namespace dtsflow

// Where pixels go: flips, borders, affine maps, and a picture scaled inside its frame.
#pragma once

#include "family.hpp"

namespace dtsflow {

// The numbers are part of the interface: dtsflow/po/geometry.py and warp.py name them too.
enum class Border : std::int32_t { constant, edge, reflect, symmetric };
enum class Sampling : std::int32_t { nearest, bilinear, corner };

// The operations' own parameters, as they lie in StepParams::own.
struct Frame {
  std::int32_t y, x, h, w;
  Border border;
  std::uint8_t fill[4];
};

// Pixel (x, y) shows the point (xx * x + xy * y + x0, yx * x + yy * y + y0), in 2^-24 of a
// pixel of the image: see dtsflow/po/affine.py.
struct Map {
  std::int64_t xx, xy, x0, yx, yy, y0;
  Sampling sampling;
  std::uint8_t fill[4];
};

struct Rescaling {
  std::int32_t h, w, antialias;
};

// Top to bottom where params.y is not 0; no pixel is moved.
Status flip_rows(View &view, const StepParams &params, StepScratch &scratch);

// Cut the window of a Frame, which may leave the image.
Status place(View &view, const StepParams &params, StepScratch &scratch);

// Sample along a Map, into an image of the same size.
Status warp(View &view, const StepParams &params, StepScratch &scratch);

// Scale by a Rescaling; what comes out keeps the size, with the picture in its middle.
Status rescale(View &view, const StepParams &params, StepScratch &scratch);

}  // namespace dtsflow

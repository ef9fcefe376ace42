// A rectangle of an image's pixels.
#pragma once

namespace dtsflow {

struct Window {
  int y = 0, x = 0, h = 0, w = 0;
};

}  // namespace dtsflow

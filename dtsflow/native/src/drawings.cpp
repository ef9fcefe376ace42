#include "drawings.hpp"

#include "jpeg_header.hpp"

namespace dtsflow {
namespace {

bool is_possible(const Size &size) {
  return size.height >= 1 && size.width >= 1 && size.height <= kMostSide &&
         size.width <= kMostSide && size.height * size.width <= kMaxPixels;
}

// As dtsflow/po/resize.py: one part in how many the first step's JPEG is decoded at.
int scale_for(const StepParams &first) {
  for (const int scale : {8, 4, 2}) {
    if (first.h / scale >= first.out_h && first.w / scale >= first.out_w) return scale;
  }
  return 1;
}

// Move the window to the image decoded at one part in `scale`.
void shrink(StepParams &first, int scale) {
  if (scale == 1) return;
  const int bottom = (first.y + first.h + scale - 1) / scale;
  const int right = (first.x + first.w + scale - 1) / scale;
  first.y /= scale;
  first.x /= scale;
  first.h = bottom - first.y;
  first.w = right - first.x;
}

}  // namespace

Status Drawings::draw(Size size, std::int64_t id, const Address &address, bool shrinks,
                      StepParams *params) const {
  if (id < 0 || id >> kIdBits != 0) return Status::not_ours;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    StepParams &step = params[i];
    step = {};
    Draws draws(address, id, steps_[i].position);
    choose(steps_[i], draws, size, step);
    if (!is_possible(size)) return Status::not_ours;
    step.out_h = static_cast<std::int32_t>(size.height);
    step.out_w = static_cast<std::int32_t>(size.width);
  }
  if (steps_.empty()) return Status::ok;
  const int scale = shrinks ? scale_for(params[0]) : 1;
  shrink(params[0], scale);
  for (std::size_t i = 0; i < steps_.size(); ++i) params[i].scale = scale;
  return Status::ok;
}

}  // namespace dtsflow

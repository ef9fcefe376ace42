#include "program.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "copy.hpp"
#include "family.hpp"

namespace dtsflow {
namespace {

bool cuts(StepKind kind) {
  return kind == StepKind::scale || kind == StepKind::scale_plain || kind == StepKind::crop;
}

// Whether a mirror before such a step can be left for later.
bool is_blind(StepKind kind) {
  const Form *const form = form_of(kind);
  return form ? form->is_blind : !cuts(kind);
}

bool is_inside(const StepParams &p, int height, int width) {
  return p.y >= 0 && p.x >= 0 && p.h >= 1 && p.w >= 1 && p.h <= height - p.y && p.w <= width - p.x;
}

View cut(const View &view, int y, int x, int h, int w) {
  View part = view;
  part.data += y * view.stride + static_cast<std::ptrdiff_t>(x) * view.channels;
  part.height = h;
  part.width = w;
  return part;
}

// The part of the window that lies in the image; empty where they do not meet.
Window visible(const StepParams &p, int height, int width) {
  const int top = std::clamp<int>(p.y, 0, height), left = std::clamp<int>(p.x, 0, width);
  const int bottom = static_cast<int>(std::clamp<std::int64_t>(std::int64_t{p.y} + p.h, 0, height));
  const int right = static_cast<int>(std::clamp<std::int64_t>(std::int64_t{p.x} + p.w, 0, width));
  return {top, left, std::max(bottom - top, 0), std::max(right - left, 0)};
}

// Cut a window out of `view`, which begins where `origin` does in the image.
Status crop(View &view, const StepParams &p, const Window &origin, Images &images) {
  const std::int64_t y = std::int64_t{p.y} - origin.y, x = std::int64_t{p.x} - origin.x;
  if (p.h < 1 || p.w < 1 || p.h > kMostSide || p.w > kMostSide) return Status::misfit;
  if (y >= 0 && x >= 0 && y + p.h <= view.height && x + p.w <= view.width) {
    view = cut(view, static_cast<int>(y), static_cast<int>(x), p.h, p.w);
    return Status::ok;
  }
  View made;
  std::uint8_t *const to = images.next(p.h, p.w, view.channels, made);
  if (!to) return Status::no_memory;
  std::memset(to, 0, static_cast<std::size_t>(made.stride * p.h));
  const std::int64_t top = std::max<std::int64_t>(y, 0), left = std::max<std::int64_t>(x, 0);
  const std::int64_t bottom = std::min<std::int64_t>(y + p.h, view.height);
  const std::int64_t right = std::min<std::int64_t>(x + p.w, view.width);
  for (std::int64_t row = top; row < bottom && left < right; ++row) {
    std::memcpy(to + (row - y) * made.stride + (left - x) * view.channels,
                view.data + row * view.stride + left * view.channels,
                static_cast<std::size_t>((right - left) * view.channels));
  }
  view = made;
  return Status::ok;
}

// As `crop`, then scale.
Status scale(View &view, const StepParams &p, const Window &origin, bool antialias,
             Images &images, ResampleScratch &scratch) {
  StepParams local = p;
  local.y -= origin.y;
  local.x -= origin.x;
  if (!is_inside(local, view.height, view.width) || p.out_h < 1 || p.out_w < 1 ||
      p.out_h > kMostSide || p.out_w > kMostSide) {
    return Status::misfit;
  }
  View made;
  std::uint8_t *const to = images.next(p.out_h, p.out_w, view.channels, made);
  if (!to) return Status::no_memory;
  const Status status = resample(cut(view, local.y, local.x, local.h, local.w), p.out_h, p.out_w,
                                 antialias, to, made.stride, scratch);
  if (status == Status::ok) view = made;
  return status;
}

Status mirror(View &view, Images &images) {
  View made;
  std::uint8_t *const to = images.next(view.height, view.width, view.channels, made);
  if (!to) return Status::no_memory;
  copy_pixels(view, true, view.channels, to, made.stride);
  view = made;
  return Status::ok;
}

}  // namespace

Program::Program(std::vector<StepKind> steps, bool encoded, int channels, int stored_channels,
                 Cast cast, const float *scale, const float *offset, const void *table,
                 std::vector<std::int16_t> normals)
    : steps_(std::move(steps)), encoded_(encoded), normals_(std::move(normals)) {
  finish_.cast = cast;
  finish_.channels = channels;
  finish_.stored_channels = stored_channels;
  if (cast == Cast::uint8) return;
  affine_.assign(scale, scale + channels);
  affine_.insert(affine_.end(), offset, offset + channels);
  const auto *const bytes = static_cast<const std::uint8_t *>(table);
  table_.assign(bytes, bytes + static_cast<std::ptrdiff_t>(256) * channels * element_bytes(finish_.cast));
  finish_.scale = affine_.data();
  finish_.offset = affine_.data() + channels;
  finish_.table = table_.data();
}

bool Program::knows(StepKind kind) {
  return cuts(kind) || kind == StepKind::mirror || kind == StepKind::erase || form_of(kind);
}

std::int64_t Program::pixel_bytes() const {
  return std::int64_t{finish_.stored_channels} * element_bytes(finish_.cast);
}

// The sample as an image, or only the part of it that the first step looks at.
Status Program::open(const Source &source, const StepParams *first, int scale, Scratch &scratch,
                     View &view) const {
  const int height = (source.height + scale - 1) / scale;
  const int width = (source.width + scale - 1) / scale;
  Window window{0, 0, height, width};
  if (first) window = visible(*first, height, width);
  if (window.h < 1 || window.w < 1) window = {0, 0, 1, 1};  // all padding: any pixel will do
  if (encoded_) {
    return scratch.jpeg.decode(source.data, static_cast<std::size_t>(source.size), source.height,
                               source.width, scale, window, view);
  }
  const std::int64_t row = std::int64_t{source.width} * finish_.channels;
  if (source.size != row * source.height) return Status::misfit;
  // Copied: the reader's memory may end right behind the sample, and vector code reads on.
  std::uint8_t *const to = Images::shape(scratch.padded, window.h, window.w, finish_.channels, view);
  if (!to) return Status::no_memory;
  for (int y = 0; y < window.h; ++y) {
    std::memcpy(to + y * view.stride,
                source.data + (window.y + y) * row + static_cast<std::int64_t>(window.x) * finish_.channels,
                static_cast<std::size_t>(window.w) * static_cast<std::size_t>(finish_.channels));
  }
  return Status::ok;
}

bool Program::begins_with_window() const { return !steps_.empty() && cuts(steps_[0]); }

Status Program::run(const Source &source, const StepParams *params, std::ptrdiff_t params_stride,
                    const Target &target, Scratch &scratch) const {
  if (source.height < 1 || source.width < 1 || source.height > kMostSide || source.width > kMostSide) {
    return Status::misfit;
  }
  if (encoded_ && finish_.channels != 3) return Status::misfit;
  const bool region = begins_with_window();
  const int shrunk = region && encoded_ ? params[0].scale : 1;
  if (shrunk != 1 && shrunk != 2 && shrunk != 4 && shrunk != 8) return Status::misfit;
  const int height = (source.height + shrunk - 1) / shrunk;
  const int width = (source.width + shrunk - 1) / shrunk;
  if (region && steps_[0] != StepKind::crop && !is_inside(params[0], height, width)) {
    return Status::misfit;
  }
  View view;
  Status status = open(source, region ? params : nullptr, shrunk, scratch, view);
  if (status != Status::ok) return status;
  Window origin = region ? visible(params[0], height, width) : Window{};
  if (region && (origin.h < 1 || origin.w < 1)) view.height = view.width = 0;
  bool mirrored = false, erased = false;
  scratch.step.normals = normals_.empty() ? nullptr : normals_.data();
  for (std::size_t i = 0; i < steps_.size(); ++i, origin = {}) {
    const StepKind kind = steps_[i];
    const StepParams &p = params[static_cast<std::ptrdiff_t>(i) * params_stride];
    if (kind == StepKind::erase) {
      erased = true;
      if (p.h != 0 && !is_inside(p, target.height, target.width)) return Status::misfit;
      continue;
    }
    if (kind == StepKind::mirror) {
      mirrored = mirrored != (p.y != 0);
      continue;
    }
    if (mirrored && !is_blind(kind)) {  // other mirrors are left to the write
      status = mirror(view, scratch.step.images);
      if (status != Status::ok) return status;
      mirrored = false;
    }
    status = step(kind, p, origin, scratch, view);
    if (status != Status::ok) return status;
  }
  if (view.height != target.height || view.width != target.width) return Status::misfit;
  write_row(view, mirrored, finish_, target.data);
  if (erased) erase(params, params_stride, target);
  return Status::ok;
}

// One step that makes an image; only the first one has an `origin`.
Status Program::step(StepKind kind, const StepParams &params, const Window &origin,
                     Scratch &scratch, View &view) const {
  Images &images = scratch.step.images;
  if (kind == StepKind::crop) return crop(view, params, origin, images);
  if (const Form *const form = form_of(kind)) return form->make(view, params, scratch.step);
  return scale(view, params, origin, kind == StepKind::scale, images, scratch.step.resample);
}

// The windows of all erasing steps, which `run` found inside, become zeros.
void Program::erase(const StepParams *params, std::ptrdiff_t params_stride,
                    const Target &target) const {
  for (std::size_t i = 0; i < steps_.size(); ++i, params += params_stride) {
    if (steps_[i] != StepKind::erase || params->h == 0) continue;
    for (std::int64_t y = params->y; y < std::int64_t{params->y} + params->h; ++y) {
      std::memset(target.data + (y * target.width + params->x) * pixel_bytes(), 0,
                  static_cast<std::size_t>(params->w * pixel_bytes()));
    }
  }
}

}  // namespace dtsflow

#include "program.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dtsflow {
namespace {

// Of an image or a window: bytes of a row, twice the taps of an axis and the like fit an int.
constexpr int kMostSide = 1 << 24;

bool cuts(StepKind kind) { return kind != StepKind::mirror; }

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

// Rows of scratch begin on 64 bytes, and vector code may run past each row's end.
std::ptrdiff_t padded_stride(int width, int channels) {
  return (static_cast<std::ptrdiff_t>(width) * channels + 63) / 64 * 64;
}

std::uint8_t *image(Buffer<std::uint8_t> &buffer, int height, int width, int channels, View &made) {
  made.stride = padded_stride(width, channels);
  made.height = height;
  made.width = width;
  made.channels = channels;
  std::uint8_t *const data = buffer.room(static_cast<std::size_t>(made.stride * height));
  made.data = data;
  return data;
}

// The part of the window that lies in the image; empty where they do not meet.
Window visible(const StepParams &p, int height, int width) {
  const int top = std::clamp<int>(p.y, 0, height), left = std::clamp<int>(p.x, 0, width);
  const int bottom = static_cast<int>(std::clamp<std::int64_t>(std::int64_t{p.y} + p.h, 0, height));
  const int right = static_cast<int>(std::clamp<std::int64_t>(std::int64_t{p.x} + p.w, 0, width));
  return {top, left, std::max(bottom - top, 0), std::max(right - left, 0)};
}

// Cut a window out of `view`, whose first pixel is the image's (origin_y, origin_x).
Status crop(View &view, const StepParams &p, int origin_y, int origin_x,
            Buffer<std::uint8_t> &buffer) {
  const std::int64_t y = std::int64_t{p.y} - origin_y, x = std::int64_t{p.x} - origin_x;
  if (p.h < 1 || p.w < 1 || p.h > kMostSide || p.w > kMostSide) return Status::misfit;
  if (y >= 0 && x >= 0 && y + p.h <= view.height && x + p.w <= view.width) {
    view = cut(view, static_cast<int>(y), static_cast<int>(x), p.h, p.w);
    return Status::ok;
  }
  View made;
  std::uint8_t *const to = image(buffer, p.h, p.w, view.channels, made);
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

void mirror_into(const View &view, std::uint8_t *to, std::ptrdiff_t stride) {
  const int channels = view.channels;
  for (int y = 0; y < view.height; ++y, to += stride) {
    const std::uint8_t *from = view.data + y * view.stride;
    for (int x = 0; x < view.width; ++x, from += channels) {
      std::uint8_t *const pixel = to + static_cast<std::ptrdiff_t>(view.width - 1 - x) * channels;
      for (int c = 0; c < channels; ++c) pixel[c] = from[c];
    }
  }
}

}  // namespace

Program::Program(std::vector<StepKind> steps, bool encoded, int channels, int stored_channels,
                 Cast cast, const float *scale, const float *offset, const void *table)
    : steps_(std::move(steps)), encoded_(encoded) {
  finish_.cast = cast;
  finish_.channels = channels;
  finish_.stored_channels = stored_channels;
  if (cast == Cast::uint8) return;
  affine_.assign(scale, scale + channels);
  affine_.insert(affine_.end(), offset, offset + channels);
  const auto *const bytes = static_cast<const std::uint8_t *>(table);
  table_.assign(bytes, bytes + static_cast<std::ptrdiff_t>(256) * channels * finish_.element_bytes());
  finish_.scale = affine_.data();
  finish_.offset = affine_.data() + channels;
  finish_.table = table_.data();
}

std::int64_t Program::pixel_bytes() const {
  return std::int64_t{finish_.stored_channels} * finish_.element_bytes();
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
  std::uint8_t *const to = image(scratch.padded, window.h, window.w, finish_.channels, view);
  if (!to) return Status::no_memory;
  for (int y = 0; y < window.h; ++y) {
    std::memcpy(to + y * view.stride,
                source.data + (window.y + y) * row + static_cast<std::int64_t>(window.x) * finish_.channels,
                static_cast<std::size_t>(window.w) * static_cast<std::size_t>(finish_.channels));
  }
  return Status::ok;
}

Status Program::run(const Source &source, const StepParams *params, std::ptrdiff_t params_stride,
                    const Target &target, Scratch &scratch) const {
  if (source.height < 1 || source.width < 1 || source.height > kMostSide || source.width > kMostSide) {
    return Status::misfit;
  }
  if (encoded_ && finish_.channels != 3) return Status::misfit;
  const bool region = !steps_.empty() && cuts(steps_[0]);
  const int scale = region && encoded_ ? params[0].scale : 1;
  if (scale != 1 && scale != 2 && scale != 4 && scale != 8) return Status::misfit;
  const int height = (source.height + scale - 1) / scale;
  const int width = (source.width + scale - 1) / scale;
  if (region && steps_[0] != StepKind::crop && !is_inside(params[0], height, width)) {
    return Status::misfit;
  }
  View view;
  Status status = open(source, region ? params : nullptr, scale, scratch, view);
  if (status != Status::ok) return status;
  const Window seen = region ? visible(params[0], height, width) : Window{};
  if (region && (seen.h < 1 || seen.w < 1)) view.height = view.width = 0;
  bool mirrored = false;
  int turn = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const StepParams &p = params[static_cast<std::ptrdiff_t>(i) * params_stride];
    const int origin_y = i == 0 ? seen.y : 0, origin_x = i == 0 ? seen.x : 0;
    Buffer<std::uint8_t> &buffer = scratch.images[turn];
    if (mirrored && cuts(steps_[i])) {  // only mirrors at the end are left to the write
      View made;
      std::uint8_t *const to = image(buffer, view.height, view.width, view.channels, made);
      if (!to) return Status::no_memory;
      mirror_into(view, to, made.stride);
      view = made;
      mirrored = false;
      turn ^= 1;
    }
    if (steps_[i] == StepKind::mirror) {
      mirrored = mirrored != (p.y != 0);
      continue;
    }
    if (steps_[i] == StepKind::crop) {
      const std::uint8_t *const before = view.data;
      status = crop(view, p, origin_y, origin_x, scratch.images[turn]);
      if (status != Status::ok) return status;
      if (view.data == scratch.images[turn].get() && before != view.data) turn ^= 1;
      continue;
    }
    StepParams local = p;
    local.y -= origin_y;
    local.x -= origin_x;
    if (!is_inside(local, view.height, view.width) || p.out_h < 1 || p.out_w < 1 ||
        p.out_h > kMostSide || p.out_w > kMostSide) {
      return Status::misfit;
    }
    View made;
    std::uint8_t *const to = image(scratch.images[turn], p.out_h, p.out_w, view.channels, made);
    if (!to) return Status::no_memory;
    status = resample(cut(view, local.y, local.x, local.h, local.w), p.out_h, p.out_w,
                      steps_[i] == StepKind::scale, to, made.stride, scratch.resample);
    if (status != Status::ok) return status;
    view = made;
    turn ^= 1;
  }
  if (view.height != target.height || view.width != target.width) return Status::misfit;
  write_row(view, mirrored, finish_, target.data);
  return Status::ok;
}

}  // namespace dtsflow

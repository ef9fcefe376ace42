#include "jpeg_excerpt.hpp"

#include <algorithm>
#include <cstring>

#include "jpeg_markers.hpp"

namespace dtsflow {
namespace {

// What cutting needs to know. Lengths in pixels but for `interval`, which is in MCUs.
struct Layout {
  int mcu_height = 0, mcu_width = 0;
  int interval = 0;
  std::size_t scan_at = 0;  // of the coded data
};

int parts_of(int length, int part) { return (length + part - 1) / part; }

// Baseline or extended, of the claimed size; chroma has one block an MCU.
bool read_frame(const Segment &frame, int height, int width, Layout &layout) {
  const std::uint8_t *const body = frame.body;
  if (frame.marker > 0xC1 || frame.length < 9 || frame.length != 6u + 3u * body[5]) return false;
  if (u16(body + 1) != height || u16(body + 3) != width) return false;
  const bool is_gray = body[5] == 1;
  if (!is_gray && (body[5] != 3 || body[10] != 0x11 || body[13] != 0x11)) return false;
  const int sampling = is_gray ? 0x11 : body[7];  // alone, it has one block an MCU too
  layout.mcu_height = 8 * (sampling & 15);
  layout.mcu_width = 8 * (sampling >> 4);
  return layout.mcu_height > 0 && layout.mcu_width > 0;
}

// One scan of all components, as a decoder of whole rows expects it.
bool is_whole_scan(const Segment &scan, int components) {
  if (scan.length < 4 || scan.body[0] != components || scan.length != 4u + 2u * scan.body[0]) {
    return false;
  }
  const std::uint8_t *const last = scan.body + scan.length - 3;
  return last[0] == 0 && last[1] == 63 && last[2] == 0;
}

// Whether a decoder of pixels looks at it: applications' data but for the two that say how
// colours are coded, and comments, need no copy.
bool matters(int marker) {
  const bool is_application = marker >= 0xE0 && marker <= 0xEF;
  return marker != 0xFE && (!is_application || marker == 0xE0 || marker == 0xEE);
}

// Whether the JPEG is of the plain kind, with markers that parts may begin at. Most JPEGs
// have none, and are left with no more work than this.
bool read_layout(const std::uint8_t *data, std::size_t size, int height, int width,
                 Layout &layout) {
  Segments segments(data, size);
  Segment segment;
  int components = 0;
  while (segments.next(segment)) {
    if (is_frame(segment.marker)) {
      if (!read_frame(segment, height, width, layout)) return false;
      components = segment.body[5];
    }
    if (segment.marker == kDri) {
      if (segment.length != 2) return false;
      layout.interval = u16(segment.body);
    }
    if (segment.marker == kSos) {
      layout.scan_at = static_cast<std::size_t>(segment.body - data) + segment.length;
      return layout.interval > 0 && components > 0 && is_whole_scan(segment, components);
    }
  }
  return false;
}

// Copy the header to `to`, which has room for all of it, with another size; the bytes
// that were copied.
std::size_t copy_header(const std::uint8_t *data, std::size_t size, const Window &place,
                        std::uint8_t *to) {
  Segments segments(data, size);
  Segment segment;
  to[0] = 0xFF;
  to[1] = kSoi;
  std::size_t copied = 2;
  while (segments.next(segment)) {
    if (matters(segment.marker)) {
      const std::size_t length = segment.length + 4;  // with its marker and its length
      std::uint8_t *const own = to + copied;
      std::memcpy(own, segment.body - 4, length);
      if (is_frame(segment.marker)) {
        own[5] = static_cast<std::uint8_t>(place.h >> 8);
        own[6] = static_cast<std::uint8_t>(place.h & 0xFF);
        own[7] = static_cast<std::uint8_t>(place.w >> 8);
        own[8] = static_cast<std::uint8_t>(place.w & 0xFF);
      }
      copied += length;
    }
    if (segment.marker == kSos) break;
  }
  return copied;
}

// Where the parts begin, and where the last one ends. False unless the markers are the
// expected ones in their order, with the end of the image behind the last part.
bool find_parts(const std::uint8_t *data, std::size_t size, std::size_t count,
                std::size_t *parts) {
  const std::uint8_t *at = data + parts[0];
  const std::uint8_t *const last = data + size - 1;
  for (std::size_t found = 1; at < last;) {
    at = static_cast<const std::uint8_t *>(
        std::memchr(at, 0xFF, static_cast<std::size_t>(last - at)));
    if (!at) return false;
    const int marker = at[1];
    if (marker == 0) {
      at += 2;
      continue;
    }
    parts[found] = static_cast<std::size_t>(at - data);
    if (found == count) return marker == kEoi;
    if (marker != kRst0 + static_cast<int>((found - 1) % 8)) return false;
    ++found;
    at += 2;
  }
  return false;
}

}  // namespace

bool JpegExcerpt::cut(const std::uint8_t *data, std::size_t size, int height, int width,
                      const Window &window) {
  Layout layout;
  if (!read_layout(data, size, height, width, layout)) return false;
  const int rows = parts_of(height, layout.mcu_height);
  const int columns = parts_of(width, layout.mcu_width);
  const int across = columns / layout.interval;  // parts a row
  if (columns % layout.interval != 0) return false;
  const std::size_t count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(across);
  if (count > size / 2) return false;  // each takes a marker
  const int part_width = layout.interval * layout.mcu_width;
  const int top = window.y / layout.mcu_height;
  const int bottom = parts_of(window.y + window.h, layout.mcu_height);
  const int left = window.x / part_width;
  const int right = parts_of(window.x + window.w, part_width);
  if (bottom - top == rows && right - left == across) return false;
  std::size_t *const parts = parts_.room(count + 1);
  std::uint8_t *const to = bytes_.room(size + 4);
  if (!parts || !to) return false;
  parts[0] = layout.scan_at;
  if (!find_parts(data, size, count, parts)) return false;

  place_ = {top * layout.mcu_height, left * part_width, 0, 0};
  place_.h = std::min(bottom * layout.mcu_height, height) - place_.y;
  place_.w = std::min(right * part_width, width) - place_.x;
  const std::size_t header = copy_header(data, size, place_, to);
  std::size_t made = header;
  int number = 0;
  for (int row = top; row < bottom; ++row) {
    for (int column = left; column < right; ++column) {
      if (made > header) {
        to[made++] = 0xFF;
        to[made++] = static_cast<std::uint8_t>(kRst0 + number++ % 8);
      }
      const std::size_t part = static_cast<std::size_t>(row) * static_cast<std::size_t>(across) +
                               static_cast<std::size_t>(column);
      const std::size_t begin = parts[part] + (part > 0 ? 2 : 0);
      std::memcpy(to + made, data + begin, parts[part + 1] - begin);
      made += parts[part + 1] - begin;
    }
  }
  to[made++] = 0xFF;
  to[made++] = kEoi;
  size_ = made;
  return true;
}

}  // namespace dtsflow

#include "jpeg_header.hpp"

#include <cstring>
#include <string_view>

#include "jpeg_markers.hpp"

namespace dtsflow {
namespace {

constexpr int kMaxScans = 500;  // as dtsflow/decode/decoder.py
constexpr std::int64_t kMaxWork = std::int64_t{1} << 32;  // pixels times scans

// What libjpeg-turbo decodes to RGB just as the reference does: baseline, extended and
// progressive frames of 8 bits, gray or three components of a common sampling.
bool is_ours(int process, const std::uint8_t *body) {
  if (process > 0xC2 || body[0] != 8) return false;
  const int components = body[5];
  if (components == 1) return true;
  if (components != 3 || body[10] != 0x11 || body[13] != 0x11) return false;
  const int luma = body[7];
  return luma == 0x11 || luma == 0x21 || luma == 0x22 || luma == 0x12 || luma == 0x41;
}

bool read_frame(int process, const std::uint8_t *body, std::size_t length, JpegFacts &facts) {
  if (length < 6 || body[5] == 0 || length != 6u + 3u * body[5]) return false;
  facts.height = u16(body + 1);
  facts.width = u16(body + 3);
  const std::int64_t pixels = std::int64_t{facts.height} * facts.width;
  return pixels >= 1 && pixels <= kMaxPixels && is_ours(process, body);
}

// Coded data escapes 0xFF, so in it these two bytes are markers and nothing else.
bool scans_are_whole(std::string_view coded, std::int64_t pixels) {
  if (coded.rfind("\xff\xd9") == std::string_view::npos) return false;
  int scans = 0;
  const char *at = coded.data();
  const char *const last = coded.data() + coded.size() - 1;
  while (at < last) {
    at = static_cast<const char *>(std::memchr(at, 0xFF, static_cast<std::size_t>(last - at)));
    if (!at) break;
    if (static_cast<std::uint8_t>(at[1]) == kSos) {
      if (++scans > kMaxScans || scans * pixels > kMaxWork) return false;
    }
    ++at;
  }
  return true;
}

}  // namespace

bool read_jpeg(const std::uint8_t *data, std::size_t size, JpegFacts &facts) {
  facts = {};
  bool framed = false;
  Segments segments(data, size);
  Segment segment;
  while (segments.next(segment)) {
    const std::uint8_t *const body = segment.body;
    if (segment.marker == kSos) {
      const std::uint8_t *const scan = body - 4;
      const auto *const coded = reinterpret_cast<const char *>(scan);
      const std::int64_t pixels = std::int64_t{facts.height} * facts.width;
      return framed && scans_are_whole({coded, static_cast<std::size_t>(data + size - scan)}, pixels);
    }
    if (is_frame(segment.marker)) {
      if (framed || !read_frame(segment.marker, body, segment.length, facts)) return false;
      framed = true;
    } else if (segment.marker == kApp1 && segment.length >= 6 &&
               std::memcmp(body, "Exif\0\0", 6) == 0) {
      facts.exif = true;
    }
  }
  return false;
}

}  // namespace dtsflow

#include "jpeg_header.hpp"

#include <cstring>
#include <string_view>

namespace dtsflow {
namespace {

constexpr int kMaxScans = 500;  // as dtsflow/decode/policy.py
constexpr std::int64_t kMaxWork = std::int64_t{1} << 32;  // pixels times scans

constexpr int kSoi = 0xD8, kEoi = 0xD9, kSos = 0xDA, kApp1 = 0xE1;

int u16(const std::uint8_t *at) { return at[0] << 8 | at[1]; }

bool is_bare(int marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7); }

bool is_frame(int marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

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
  if (size < 4 || data[0] != 0xFF || data[1] != kSoi || data[2] != 0xFF) return false;
  facts = {};
  bool framed = false;
  std::size_t at = 2;
  for (;;) {
    const std::size_t start = at;
    while (at < size && data[at] == 0xFF) ++at;
    if (at == size || at == start) return false;
    const int marker = data[at++];
    if (is_bare(marker)) continue;
    if (marker == 0 || marker == kSoi || marker == kEoi) return false;
    if (size - at < 2) return false;
    const std::size_t length = static_cast<std::size_t>(u16(data + at));
    if (length < 2 || length > size - at) return false;
    const std::uint8_t *const body = data + at + 2;
    if (marker == kSos) {
      const std::size_t scan = at - 2;
      const auto *coded = reinterpret_cast<const char *>(data + scan);
      const std::int64_t pixels = std::int64_t{facts.height} * facts.width;
      return framed && scans_are_whole({coded, size - scan}, pixels);
    }
    if (is_frame(marker)) {
      if (framed || !read_frame(marker, body, length - 2, facts)) return false;
      framed = true;
    } else if (marker == kApp1 && length >= 8 && std::memcmp(body, "Exif\0\0", 6) == 0) {
      facts.exif = true;
    }
    at += length;
  }
}

}  // namespace dtsflow

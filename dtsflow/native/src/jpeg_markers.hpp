// The marker segments of a JPEG, one after another (ITU-T T.81, annex B).
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtsflow {

inline constexpr int kRst0 = 0xD0, kSoi = 0xD8, kEoi = 0xD9, kSos = 0xDA, kDri = 0xDD;
inline constexpr int kApp1 = 0xE1;

inline int u16(const std::uint8_t *at) { return at[0] << 8 | at[1]; }

inline bool is_frame(int marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

struct Segment {
  int marker = 0;
  const std::uint8_t *body = nullptr;  // behind the two bytes of its length
  std::size_t length = 0;              // of the body
};

// Walks from the start of the image to the first scan.
class Segments {
 public:
  Segments(const std::uint8_t *data, std::size_t size) : data_(data), size_(size) {}

  // The next segment; false where there is none, or what follows is no marker segment.
  bool next(Segment &segment);

 private:
  const std::uint8_t *data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

}  // namespace dtsflow

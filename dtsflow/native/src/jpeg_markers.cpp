#include "jpeg_markers.hpp"

namespace dtsflow {
namespace {

bool is_bare(int marker) { return marker == 0x01 || (marker >= kRst0 && marker <= kRst0 + 7); }

}  // namespace

bool Segments::next(Segment &segment) {
  if (at_ == 0) {
    if (size_ < 4 || data_[0] != 0xFF || data_[1] != kSoi || data_[2] != 0xFF) return false;
    at_ = 2;
  }
  for (;;) {
    const std::size_t start = at_;
    while (at_ < size_ && data_[at_] == 0xFF) ++at_;
    if (at_ == size_ || at_ == start) return false;
    const int marker = data_[at_++];
    if (is_bare(marker)) continue;
    if (marker == 0 || marker == kSoi || marker == kEoi || size_ - at_ < 2) return false;
    const std::size_t length = static_cast<std::size_t>(u16(data_ + at_));
    if (length < 2 || length > size_ - at_) return false;
    segment = {marker, data_ + at_ + 2, length - 2};
    at_ += length;
    return true;
  }
}

}  // namespace dtsflow

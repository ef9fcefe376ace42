// Scratch that only grows, so that a warm worker allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace dtsflow {

// Vector code may read this far past the last element, and write it in scratch.
inline constexpr std::size_t kSlack = 64;

template <typename T>
class Buffer {
 public:
  // Room for `count` elements and kSlack bytes; nullptr where there is no memory for it.
  T *room(std::size_t count) {
    if (count > size_ || !data_) {
      const std::size_t elements = count + kSlack / sizeof(T);
      data_.reset();
      data_.reset(new (std::nothrow) T[elements]);
      size_ = data_ ? count : 0;
    }
    return data_.get();
  }

  T *get() const { return data_.get(); }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t size_ = 0;
};

// An image somewhere: rows of interleaved uint8 pixels, `stride` bytes apart.
struct View {
  const std::uint8_t *data = nullptr;
  int height = 0;
  int width = 0;
  std::ptrdiff_t stride = 0;
  int channels = 0;
};

}  // namespace dtsflow

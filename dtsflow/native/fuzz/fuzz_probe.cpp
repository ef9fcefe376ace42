// Any bytes as a JPEG. read_jpeg stays inside them, and what it calls ours decodes alike
// whatever was decoded before, and in any window as the full decode of that scale has it.
// With restart markers it has the same pixels.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include <jpeglib.h>

#include "expect.hpp"
#include "jpeg_header.hpp"
#include "jpeg_region.hpp"
#include "jpeg_restarts.hpp"

namespace {

using namespace dtsflow;
using Bytes = std::vector<std::uint8_t>;

struct Decoded {
  Status status = Status::misfit;
  Bytes pixels;  // compact rows
};

Decoded decode(JpegDecoder &decoder, const Bytes &jpeg, const JpegFacts &facts, int scale,
               const Window &window) {
  View view;
  Decoded made;
  made.status =
      decoder.decode(jpeg.data(), jpeg.size(), facts.height, facts.width, scale, window, view);
  if (made.status != Status::ok) return made;
  expect(view.height == window.h && view.width == window.w && view.channels == 3,
         "a decode has the size of its window");
  for (int y = 0; y < view.height; ++y) {
    const std::uint8_t *const row = view.data + y * view.stride;
    made.pixels.insert(made.pixels.end(), row, row + std::ptrdiff_t{3} * view.width);
  }
  return made;
}

Bytes cut(const Bytes &pixels, int width, const Window &window) {
  Bytes part;
  for (int y = window.y; y < window.y + window.h; ++y) {
    const auto from = pixels.begin() + 3 * (static_cast<std::ptrdiff_t>(y) * width + window.x);
    part.insert(part.end(), from, from + std::ptrdiff_t{3} * window.w);
  }
  return part;
}

// A good JPEG of 16 x 16 whose tables are its own: what it leaves behind would show.
Bytes make_other() {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char *made = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &made, &size);
  info.image_width = info.image_height = 16;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 30, TRUE);
  info.optimize_coding = TRUE;
  jpeg_start_compress(&info, TRUE);
  std::minstd_rand random;
  for (int y = 0; y < 16; ++y) {
    std::uint8_t row[3 * 16];
    for (std::uint8_t &value : row) value = static_cast<std::uint8_t>(random() >> 8);
    JSAMPROW rows[] = {row};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  Bytes other(made, made + size);
  jpeg_destroy_compress(&info);
  std::free(made);
  return other;
}

void check_restarts(const Bytes &jpeg, const JpegFacts &facts, const Window &whole, int scale,
                    const Decoded &full) {
  Buffer<std::uint8_t> room;
  std::size_t size = 0;
  if (!add_restarts(jpeg.data(), jpeg.size(), room, size)) return;
  const Bytes marked(room.get(), room.get() + size);
  JpegFacts same;
  expect(read_jpeg(marked.data(), size, same) && same.height == facts.height &&
             same.width == facts.width && same.exif == facts.exif,
         "restart markers leave the header's facts");
  JpegDecoder decoder;
  const Decoded made = decode(decoder, marked, facts, scale, whole);
  expect(made.status == Status::ok, "what was given restart markers is good");
  expect(full.status != Status::ok || made.pixels == full.pixels, "restart markers leave the pixels");
}

Window choose(std::minstd_rand &random, int height, int width) {
  const auto upto = [&](int most) { return static_cast<int>(random() % (static_cast<unsigned>(most) + 1)); };
  Window window;
  window.h = 1 + upto(random() % 2 ? height - 1 : 0);
  window.w = 1 + upto(random() % 2 ? width - 1 : 0);
  window.y = upto(height - window.h);
  window.x = upto(width - window.w);
  return window;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  static const Bytes other = make_other();
  const Bytes jpeg(data, data + size);  // a block of this very size, so a read past it is seen
  JpegFacts facts;
  if (!read_jpeg(jpeg.data(), jpeg.size(), facts)) return 0;
  expect(facts.height >= 1 && facts.width >= 1, "what is ours has pixels");
  if (std::int64_t{facts.height} * facts.width > kMostPixels) return 0;

  const std::string_view text(reinterpret_cast<const char *>(data), size);
  std::minstd_rand random(static_cast<unsigned>(std::hash<std::string_view>{}(text)));
  const int scale = random() % 2 ? 1 : 1 << random() % 4;
  const int height = (facts.height + scale - 1) / scale, width = (facts.width + scale - 1) / scale;
  const Window whole{0, 0, height, width};
  JpegDecoder fresh, used;
  const Decoded full = decode(fresh, jpeg, facts, scale, whole);
  expect(full.status == Status::ok || full.status == Status::damaged, "ours is whole or damaged");
  expect(decode(used, other, {16, 16}, 1, {0, 0, 16, 16}).status == Status::ok, "a good JPEG is good");
  const Decoded again = decode(used, jpeg, facts, scale, whole);
  expect(again.status == full.status && again.pixels == full.pixels,
         "a decode does not depend on the one before");
  check_restarts(jpeg, facts, whole, scale, full);
  if (full.status != Status::ok) return 0;
  for (int i = 0; i < 3; ++i) {
    const Window window = choose(random, height, width);
    const Decoded region = decode(used, jpeg, facts, scale, window);
    expect(region.status == Status::ok, "a region of a good image is good");
    expect(region.pixels == cut(full.pixels, width, window), "a region is the crop of the full decode");
  }
  return 0;
}

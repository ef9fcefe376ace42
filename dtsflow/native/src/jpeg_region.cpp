#include "jpeg_region.hpp"

#include <algorithm>

#include "jpeg_errors.hpp"

namespace dtsflow {
namespace {

// Fancy upsampling treats the edge of what it is given as the image's edge, and looks
// one chroma sample further: two pixels of margin keep the window itself exact.
constexpr int kMargin = 2;
constexpr int kLines = 4;  // asked for at once; libjpeg gives one or two

// Whether blocks are smoothed, for want of scans: then a block depends on those around it.
bool smooths(const jpeg_decompress_struct &info) {
  if (!info.coef_bits) return false;
  for (int component = 0; component < info.num_components; ++component) {
    for (int k = 1; k < DCTSIZE2; ++k) {
      if (info.coef_bits[component][k] != 0) return true;
    }
  }
  return false;
}

}  // namespace

struct JpegDecoder::Library {
  jpeg_decompress_struct info;
  JpegErrors errors;
  bool made;
};

JpegDecoder::JpegDecoder() : library_(new Library{}) {
  Library &lib = *library_;
  lib.info.err = come_back(lib.errors);
  if (setjmp(lib.errors.back) == 0) {
    jpeg_create_decompress(&lib.info);
    lib.made = true;
  }
}

JpegDecoder::~JpegDecoder() {
  if (library_->made) jpeg_destroy_decompress(&library_->info);
  delete library_;
}

Status JpegDecoder::decode(const std::uint8_t *data, std::size_t size, int height, int width,
                           int scale, const Window &window, View &out) {
  // In pixels of the whole size, where an excerpt begins on a multiple of every scale.
  const int top = std::max(window.y - kMargin, 0) * scale;
  const int left = std::max(window.x - kMargin, 0) * scale;
  const Window around{top, left, std::min((window.y + window.h + kMargin) * scale, height) - top,
                      std::min((window.x + window.w + kMargin) * scale, width) - left};
  if (excerpt_.cut(data, size, height, width, around)) {
    const Window &place = excerpt_.place();
    const Window moved{window.y - place.y / scale, window.x - place.x / scale, window.h, window.w};
    const Status status =
        decode_all(excerpt_.data(), excerpt_.size(), place.h, place.w, scale, moved, out);
    if (status == Status::ok) return status;  // else the whole JPEG says what is wrong with it
  }
  return decode_all(data, size, height, width, scale, window, out);
}

Status JpegDecoder::decode_all(const std::uint8_t *data, std::size_t size, int height, int width,
                               int scale, const Window &window, View &out) {
  Library &lib = *library_;
  if (!lib.made) return Status::no_memory;
  // give_up comes back to this line; what it leaves behind owns no memory.
  if (setjmp(lib.errors.back) != 0) {
    jpeg_abort_decompress(&lib.info);
    return Status::damaged;
  }
  // Made anew, as it would keep its tables for a JPEG that brings none.
  jpeg_destroy_decompress(&lib.info);
  jpeg_create_decompress(&lib.info);
  const Status status = decode_or_give_up(data, size, height, width, scale, window, out);
  // Abort, not finish: what lies below the window is never decoded.
  jpeg_abort_decompress(&lib.info);
  return status;
}

Status JpegDecoder::decode_or_give_up(const std::uint8_t *data, std::size_t size, int height,
                                      int width, int scale, const Window &window, View &out) {
  jpeg_decompress_struct &info = library_->info;
  const int rows = (height + scale - 1) / scale, columns = (width + scale - 1) / scale;
  const int top = std::max(window.y - kMargin, 0);
  int left = std::max(window.x - kMargin, 0);
  const int bottom = std::min(window.y + window.h + kMargin, rows);
  int right = std::min(window.x + window.w + kMargin, columns);
  jpeg_mem_src(&info, data, static_cast<unsigned long>(size));
  jpeg_read_header(&info, TRUE);
  if (static_cast<int>(info.image_height) != height ||
      static_cast<int>(info.image_width) != width) {
    return Status::damaged;
  }
  info.out_color_space = JCS_RGB;
  info.dct_method = JDCT_ISLOW;
  info.do_fancy_upsampling = TRUE;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned int>(scale);
  jpeg_start_decompress(&info);
  if (smooths(info)) {
    left = 0;
    right = columns;
  }
  JDIMENSION offset = static_cast<JDIMENSION>(left);
  JDIMENSION across = static_cast<JDIMENSION>(right - left);
  if (right - left < columns) jpeg_crop_scanline(&info, &offset, &across);
  if (top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(top));

  const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(info.output_width) * 3;
  std::uint8_t *const pixels = pixels_.room(static_cast<std::size_t>(stride * (bottom - top)));
  if (!pixels) return Status::no_memory;
  for (int row = 0; row < bottom - top;) {
    JSAMPROW lines[kLines];
    const int ask = std::min(kLines, bottom - top - row);
    for (int i = 0; i < ask; ++i) lines[i] = pixels + (row + i) * stride;
    const JDIMENSION got = jpeg_read_scanlines(&info, lines, static_cast<JDIMENSION>(ask));
    if (got == 0) return Status::damaged;
    row += static_cast<int>(got);
  }
  // Behind the last row the library still checks that the data end as they should.
  if (bottom == rows) jpeg_finish_decompress(&info);
  out.data = pixels + (window.y - top) * stride + (window.x - static_cast<int>(offset)) * 3;
  out.height = window.h;
  out.width = window.w;
  out.stride = stride;
  out.channels = 3;
  return Status::ok;
}

}  // namespace dtsflow

#include "jpeg_restarts.hpp"

#include <cstring>

#include "jpeg_errors.hpp"
#include "jpeg_header.hpp"
#include "jpeg_markers.hpp"

namespace dtsflow {
namespace {

constexpr int kPart = 64;  // pixels between two markers: less makes files larger, not faster
constexpr std::int64_t kMostPixels = 1 << 26;  // of coefficients, all in memory, twice
constexpr int kComment = 0xFE, kApp0 = 0xE0, kAdobe = 0xEE, kApplications = 16;
constexpr unsigned int kMostMarker = 0xFFFF;

// The divisor of `columns` MCUs that is nearest to kPart, by its ratio.
int choose_interval(int columns, int mcu_width) {
  const auto ratio = [&](int interval) {
    const double part = static_cast<double>(interval) * mcu_width / kPart;
    return part < 1 ? 1 / part : part;
  };
  int best = columns;
  for (int interval = 1; interval < columns; ++interval) {
    if (columns % interval == 0 && ratio(interval) < ratio(best)) best = interval;
  }
  return best;
}

struct Reading {
  jpeg_decompress_struct info;
  JpegErrors errors;
  bool made;
};

struct Writing {
  jpeg_compress_struct info;
  JpegErrors errors;
  bool made;
};

// Plain memory for libjpeg, whose jumps no destructor may stand in the way of.
struct Transcoding {
  Reading from, again;
  Writing to;

  ~Transcoding() {
    if (from.made) jpeg_destroy_decompress(&from.info);
    if (again.made) jpeg_destroy_decompress(&again.info);
    if (to.made) jpeg_destroy_compress(&to.info);
  }
};

// Room that libjpeg fills, and must not ask for more.
struct Destination {
  jpeg_destination_mgr manager;
  std::uint8_t *room;
  std::size_t size;
};

void write_to(jpeg_compress_struct &info, Destination &to) {
  to.manager.init_destination = [](j_compress_ptr writing) {
    auto *const given = reinterpret_cast<Destination *>(writing->dest);
    given->manager.next_output_byte = given->room;
    given->manager.free_in_buffer = given->size;
  };
  to.manager.empty_output_buffer = [](j_compress_ptr writing) -> boolean {
    give_up(reinterpret_cast<j_common_ptr>(writing));
  };
  to.manager.term_destination = [](j_compress_ptr) {};
  info.dest = &to.manager;
}

// The three below give false for an error or a warning of libjpeg's.

bool read(Reading &reading, const std::uint8_t *data, std::size_t size,
          jvirt_barray_ptr *&blocks) {
  jpeg_decompress_struct &info = reading.info;
  info.err = come_back(reading.errors);
  if (setjmp(reading.errors.back) != 0) return false;
  jpeg_create_decompress(&info);
  reading.made = true;
  jpeg_mem_src(&info, data, static_cast<unsigned long>(size));
  jpeg_save_markers(&info, kComment, kMostMarker);
  for (int i = 0; i < kApplications; ++i) jpeg_save_markers(&info, kApp0 + i, kMostMarker);
  jpeg_read_header(&info, TRUE);
  blocks = jpeg_read_coefficients(&info);
  if (!blocks) return false;
  for (int component = 0; info.coef_bits && component < info.num_components; ++component) {
    for (int k = 0; k < DCTSIZE2; ++k) {
      if (info.coef_bits[component][k] != 0) return false;  // scans are missing: it is smoothed
    }
  }
  return true;
}

// Whether libjpeg writes the marker by itself.
bool is_written(const jpeg_compress_struct &info, const jpeg_marker_struct &marker) {
  const auto begins = [&](const char *name, unsigned int length) {
    return marker.data_length >= length && std::memcmp(marker.data, name, length) == 0;
  };
  if (marker.marker == kApp0 && info.write_JFIF_header) return begins("JFIF", 5);
  return marker.marker == kAdobe && info.write_Adobe_marker && begins("Adobe", 5);
}

bool write(Writing &writing, jpeg_decompress_struct &from, jvirt_barray_ptr *blocks,
           Destination &to) {
  jpeg_compress_struct &info = writing.info;
  info.err = come_back(writing.errors);
  if (setjmp(writing.errors.back) != 0) return false;
  jpeg_create_compress(&info);
  writing.made = true;
  write_to(info, to);
  jpeg_copy_critical_parameters(&from, &info);
  info.optimize_coding = TRUE;
  const bool is_single = info.num_components == 1;
  const int sampling = is_single ? 1 : from.max_h_samp_factor;
  const int mcu_width = sampling * DCTSIZE;
  const int columns = (static_cast<int>(from.image_width) + mcu_width - 1) / mcu_width;
  info.restart_interval = static_cast<unsigned int>(choose_interval(columns, mcu_width));
  jpeg_write_coefficients(&info, blocks);
  for (jpeg_saved_marker_ptr marker = from.marker_list; marker; marker = marker->next) {
    if (!is_written(info, *marker)) {
      jpeg_write_marker(&info, marker->marker, marker->data, marker->data_length);
    }
  }
  jpeg_finish_compress(&info);
  return true;
}

bool is_same(Reading &left, jvirt_barray_ptr *left_blocks, Reading &right,
             jvirt_barray_ptr *right_blocks) {
  jpeg_decompress_struct &info = left.info;
  if (setjmp(left.errors.back) != 0 || setjmp(right.errors.back) != 0) return false;
  if (info.num_components != right.info.num_components ||
      info.image_width != right.info.image_width || info.image_height != right.info.image_height ||
      info.jpeg_color_space != right.info.jpeg_color_space) {
    return false;
  }
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info &mine = info.comp_info[i], &other = right.info.comp_info[i];
    if (mine.h_samp_factor != other.h_samp_factor || mine.v_samp_factor != other.v_samp_factor ||
        !mine.quant_table || !other.quant_table ||
        std::memcmp(mine.quant_table->quantval, other.quant_table->quantval,
                    sizeof mine.quant_table->quantval) != 0) {
      return false;
    }
    for (JDIMENSION row = 0; row < mine.height_in_blocks; ++row) {
      const JBLOCKARRAY a = info.mem->access_virt_barray(
          reinterpret_cast<j_common_ptr>(&info), left_blocks[i], row, 1, FALSE);
      const JBLOCKARRAY b = right.info.mem->access_virt_barray(
          reinterpret_cast<j_common_ptr>(&right.info), right_blocks[i], row, 1, FALSE);
      if (std::memcmp(a[0], b[0], sizeof(JBLOCK) * mine.width_in_blocks) != 0) return false;
    }
  }
  return true;
}

}  // namespace

bool add_restarts(const std::uint8_t *data, std::size_t size, Buffer<std::uint8_t> &out,
                  std::size_t &made) {
  JpegFacts facts;
  if (!read_jpeg(data, size, facts)) return false;
  if (std::int64_t{facts.height} * facts.width > kMostPixels) return false;
  Transcoding work{};
  jvirt_barray_ptr *blocks = nullptr, *again = nullptr;
  Destination to{{}, out.room(2 * size), 2 * size};
  if (!to.room || !read(work.from, data, size, blocks)) return false;
  if (!write(work.to, work.from.info, blocks, to)) return false;
  made = to.size - to.manager.free_in_buffer;
  JpegFacts now;  // metadata between scans would come to count
  return read_jpeg(to.room, made, now) && now.exif == facts.exif &&
         read(work.again, to.room, made, again) &&
         is_same(work.from, blocks, work.again, again);
}

}  // namespace dtsflow

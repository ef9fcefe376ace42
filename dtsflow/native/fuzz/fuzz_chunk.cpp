// One sample through a program. The last bytes of the input choose the program, its
// parameters and the room for the row; the others are the sample. What comes out must be
// what the steps make one after another of the whole image, at every CPU level alike; a
// sample that fails leaves its row as it was.
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include <fuzzer/FuzzedDataProvider.h>

#include "cpu.hpp"
#include "expect.hpp"
#include "family.hpp"
#include "geometry.hpp"
#include "jpeg_header.hpp"
#include "program.hpp"

namespace {

using namespace dtsflow;
using Bytes = std::vector<std::uint8_t>;

constexpr int kSteps = 4;
constexpr StepKind kKinds[] = {StepKind::scale, StepKind::scale_plain, StepKind::crop, StepKind::mirror,
                               StepKind::erase, StepKind::jitter, StepKind::grayscale,
                               StepKind::autocontrast, StepKind::blur, StepKind::noise,
                               StepKind::posterize, StepKind::solarize, StepKind::equalize,
                               StepKind::sharpen, StepKind::augment, StepKind::flip_rows,
                               StepKind::place, StepKind::warp, StepKind::rescale};
constexpr std::ptrdiff_t kSamples = 2;  // of a chunk whose second one is run
// No image between steps may take more, but for sizes that no machine has memory for.
constexpr double kMostBytes = 1 << 18, kAbsurd = 0x1p41;
constexpr std::uint8_t kUntouched = 0xA5;

struct Image {
  int height = 0, width = 0, channels = 0;
  Bytes pixels;  // compact rows, and kSlack bytes

  void shape(int h, int w, int c) {
    height = h, width = w, channels = c;
    pixels.assign(static_cast<std::size_t>(h) * static_cast<std::size_t>(w) * static_cast<std::size_t>(c) + kSlack, 0);
  }
  std::uint8_t *at(std::int64_t y, std::int64_t x) {
    return pixels.data() + (y * width + x) * channels;
  }
};

class Choices {
 public:
  explicit Choices(FuzzedDataProvider &provider) : provider_(provider) {}
  int between(int low, int high) { return provider_.ConsumeIntegralInRange<int>(low, high); }
  bool rarely() { return between(0, 63) == 63; }
  int hostile() {
    constexpr int kEdges[] = {INT_MIN, INT_MIN + 1, -65536, -1, 0, 1, 65535, 1 << 30, INT_MAX - 1, INT_MAX};
    return between(0, 3) == 0 ? provider_.ConsumeIntegral<int>() : provider_.PickValueInArray(kEdges);
  }

 private:
  FuzzedDataProvider &provider_;
};

// The half that is nearest to `value`, ties to even; no infinities or NaNs come here.
std::uint16_t half(float value) {
  const double size = std::fabs(value);
  const int exponent = size > 0 ? std::max(std::ilogb(size), -14) : -14;
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | (((exponent + 14) << 10) + steps));
}

struct Ending {
  Cast cast;
  int channels, stored;
  std::vector<float> scale, offset;
  Bytes table;

  std::size_t element() const { return cast == Cast::uint8 ? 1 : cast == Cast::fp32 ? 4 : 2; }
};

Ending choose_ending(Choices &choices, int channels) {
  Ending made;
  made.cast = static_cast<Cast>(choices.between(0, 3));
  made.channels = channels;
  made.stored = choices.between(channels, 8);
  if (made.cast == Cast::uint8) return made;
  for (int c = 0; c < channels; ++c) {
    made.scale.push_back(static_cast<float>(choices.between(-255, 255)) / 77);
    made.offset.push_back(static_cast<float>(choices.between(-255, 255)) / 7);
    for (int value = 0; value < 256; ++value) {
      const float scaled = static_cast<float>(value) * made.scale.back();
      const float result = scaled + made.offset.back();
      std::uint32_t bits;
      std::memcpy(&bits, &result, sizeof bits);
      if (made.cast == Cast::fp16) bits = half(result);
      if (made.cast == Cast::bf16) bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
      const auto *const from = reinterpret_cast<const std::uint8_t *>(&bits);  // little-endian
      made.table.insert(made.table.end(), from, from + made.element());
    }
  }
  return made;
}

// What the noise is made of here; the true ones come from Python.
const std::vector<std::int16_t> &normals() {
  static const std::vector<std::int16_t> made = [] {
    std::vector<std::int16_t> numbers;
    for (int i = 0; i < kNormals; ++i) numbers.push_back(static_cast<std::int16_t>(i / 2));
    return numbers;
  }();
  return made;
}

// The numbers of a step that makes an image of a whole one: mostly what fits, or anything.
void choose_own(Choices &choices, StepKind kind, StepParams &p, bool inner = false) {
  for (std::int32_t &number : p.own) number = choices.between(0, 1);
  const auto real = [&](float value) { std::int32_t bits; return std::memcpy(&bits, &value, sizeof bits), bits; };
  std::int16_t weights[30] = {};
  switch (kind) {
    case StepKind::jitter:
      for (int i = 0; i < 4; ++i) p.own[i] = choices.between(-1, 3);
      for (int i = 4; i < 7; ++i) p.own[i] = real(static_cast<float>(choices.between(0, 255)) / 100);
      p.own[7] = choices.between(0, 255);
      break;
    case StepKind::blur:
      p.own[0] = choices.between(0, 29);
      weights[0] = 1 << 14;
      for (int k = 1; k <= p.own[0]; ++k) {
        weights[k] = static_cast<std::int16_t>(choices.between(0, weights[0] / 2));
        weights[0] = static_cast<std::int16_t>(weights[0] - 2 * weights[k]);
      }
      std::memcpy(&p.own[1], weights, sizeof weights);
      break;
    case StepKind::posterize:
      p.own[0] = choices.between(0, 8);
      break;
    case StepKind::solarize:
    case StepKind::sharpen:
      p.own[0] = real(static_cast<float>(choices.between(-1, 1024)) / 4);
      break;
    case StepKind::augment: {
      constexpr StepKind kInner[] = {StepKind::warp, StepKind::jitter, StepKind::autocontrast,
                                     StepKind::posterize, StepKind::solarize, StepKind::equalize,
                                     StepKind::sharpen, StepKind::blur};
      if (inner) break;
      const StepKind chosen = kInner[choices.between(0, std::ssize(kInner) - 1)];
      choose_own(choices, chosen, p, true);
      std::copy_backward(p.own, p.own + kOwnNumbers - 1, p.own + kOwnNumbers);
      p.own[0] = choices.rarely() ? -1 : static_cast<int>(chosen);
      break;
    }
    case StepKind::noise:
      p.own[2] = real(static_cast<float>(choices.between(-255, 255)));
      p.own[3] = real(static_cast<float>(choices.between(0, 255)) / 4);
      break;
    case StepKind::flip_rows:
      p.y = choices.between(0, 1);
      break;
    case StepKind::place: {
      const Frame frame{choices.between(-60, 60), choices.between(-60, 60), choices.between(1, 60),
                        choices.between(1, 60), static_cast<Border>(choices.between(0, 3)), {1, 2, 3, 4}};
      std::memcpy(p.own, &frame, sizeof frame);
      p.out_h = frame.h;
      p.out_w = frame.w;
      break;
    }
    case StepKind::warp: {
      const auto number = [&](int most) {
        const std::int64_t size = std::int64_t{most} << 24;
        return choices.between(0, 7) == 0 ? std::int64_t{choices.hostile()} << choices.between(0, 31)
                                          : size * choices.between(-256, 256) / 256;
      };
      const Map map{number(3), number(3), number(60), number(3), number(3), number(60),
                    static_cast<Sampling>(choices.between(0, 2)), {1, 2, 3, 4}};
      std::memcpy(p.own, &map, sizeof map);
      break;
    }
    case StepKind::rescale:
      p.own[0] = choices.between(1, 80);
      p.own[1] = choices.between(1, 80);
      break;
    default:
      break;
  }
  const int odd = choices.between(0, 127);
  if (odd < kOwnNumbers) p.own[odd] = choices.hostile();
}

// Mostly what fits an image of `height` x `width`, sometimes with one number that does not.
StepParams choose_params(Choices &choices, StepKind kind, int height, int width) {
  StepParams p{};
  const auto side = [&](int size, std::int32_t &start, std::int32_t &length, std::int32_t &out) {
    if (kind == StepKind::crop) {
      length = choices.between(1, std::min(size + 8, 128));
      start = choices.between(-length - 2, size + 2);
      out = length;
    } else {
      length = choices.between(1, size);
      start = choices.between(0, size - length);
      out = choices.between(0, 3) == 0 ? std::min(length, 128) : choices.between(1, 80);
    }
  };
  if (form_of(kind)) {
    p.out_h = height;
    p.out_w = width;
    choose_own(choices, kind, p);
  } else if (kind == StepKind::mirror) {
    p.y = choices.between(0, 1);
  } else {
    side(height, p.y, p.h, p.out_h);
    side(width, p.x, p.w, p.out_w);
  }
  if (kind == StepKind::erase && choices.between(0, 3) == 0) p.h = 0;
  std::int32_t *const numbers[] = {&p.y, &p.x, &p.h, &p.w, &p.out_h, &p.out_w};
  const int odd = choices.between(0, 127);
  if (odd >= 122) *numbers[odd - 122] = choices.hostile();
  return p;
}

bool makes_image(StepKind kind) { return kind != StepKind::mirror && kind != StepKind::erase; }

// What an image of this size takes as scratch; rows begin on 64 bytes.
double scratch_bytes(double height, double width, double channels) {
  return height * std::max(width * channels, 64.0);
}

// Whether a step takes memory that a machine could just have, which no test should try.
bool is_heavy(StepKind kind, const StepParams &p, int height, int channels) {
  const auto between = [](double bytes) { return bytes > kMostBytes && bytes < kAbsurd; };
  if (!makes_image(kind)) return false;
  if (kind == StepKind::place) return between(scratch_bytes(p.own[2], p.own[3], channels));
  if (kind == StepKind::rescale) {
    return between(scratch_bytes(p.own[0], p.own[1], channels)) || between(p.own[0]) ||
           between(p.own[1]) || between(scratch_bytes(height, p.own[1], channels)) ||
           between(scratch_bytes(p.own[0], p.out_w, channels));
  }
  if (form_of(kind)) return between(scratch_bytes(p.out_h, p.out_w, channels));
  if (kind == StepKind::crop) return between(scratch_bytes(p.h, p.w, channels));
  return between(scratch_bytes(p.out_h, p.out_w, channels)) ||
         between(scratch_bytes(height, p.out_w, channels)) ||
         between(scratch_bytes(p.out_h, p.w, channels));
}

// What one step makes of an image, plainly written; nothing where the two do not fit.
std::optional<Image> apply(StepKind kind, const StepParams &p, Image &image) {
  if (kind == StepKind::erase) return image;  // it is for the row
  Image made;
  if (kind == StepKind::mirror) {
    made.shape(image.height, image.width, image.channels);
    for (int y = 0; y < made.height; ++y) {
      for (int x = 0; x < made.width; ++x) {
        std::copy_n(image.at(y, p.y != 0 ? made.width - 1 - x : x), made.channels, made.at(y, x));
      }
    }
    return made;
  }
  if (const Form *const form = form_of(kind)) {
    // What the portable code makes of it: the others must agree, and all stay in bounds.
    StepScratch scratch;
    scratch.normals = normals().data();
    View view{image.at(0, 0), image.height, image.width, std::ptrdiff_t{image.width} * image.channels, image.channels};
    force_cpu_level(CpuLevel::portable);
    if (form->make(view, p, scratch) != Status::ok) return std::nullopt;
    made.shape(view.height, view.width, view.channels);
    for (int y = 0; y < view.height; ++y) {
      std::copy_n(view.data + y * view.stride, view.width * view.channels, made.at(y, 0));
    }
    return made;
  }
  if (p.h < 1 || p.w < 1) return std::nullopt;
  if (kind == StepKind::crop) {
    if (scratch_bytes(p.h, p.w, image.channels) > kMostBytes) return std::nullopt;
    made.shape(p.h, p.w, image.channels);
    for (int y = 0; y < p.h; ++y) {
      for (int x = 0; x < p.w; ++x) {
        const std::int64_t from_y = std::int64_t{p.y} + y, from_x = std::int64_t{p.x} + x;
        if (from_y < 0 || from_x < 0 || from_y >= image.height || from_x >= image.width) continue;
        std::copy_n(image.at(from_y, from_x), made.channels, made.at(y, x));
      }
    }
    return made;
  }
  if (p.y < 0 || p.x < 0 || p.h > image.height - p.y || p.w > image.width - p.x || p.out_h < 1 ||
      p.out_w < 1 || scratch_bytes(p.out_h, p.out_w, image.channels) > kMostBytes) {
    return std::nullopt;
  }
  made.shape(p.out_h, p.out_w, image.channels);
  const View view{image.at(p.y, p.x), p.h, p.w, std::ptrdiff_t{image.width} * image.channels, image.channels};
  ResampleScratch scratch;
  force_cpu_level(CpuLevel::portable);
  const Status status = resample(view, p.out_h, p.out_w, kind == StepKind::scale, made.at(0, 0),
                                 std::ptrdiff_t{made.width} * made.channels, scratch);
  expect(status == Status::ok, "a small image is scaled");
  return made;
}

Bytes written(Image &image, const Ending &ending) {
  Bytes row;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const std::uint8_t *const pixel = image.at(y, x);
      for (int c = 0; c < ending.stored; ++c) {
        if (c >= ending.channels) {
          row.insert(row.end(), ending.element(), 0);
        } else if (ending.cast == Cast::uint8) {
          row.push_back(pixel[c]);
        } else {
          const auto from = ending.table.begin() + static_cast<std::ptrdiff_t>((c * 256u + pixel[c]) * ending.element());
          row.insert(row.end(), from, from + static_cast<std::ptrdiff_t>(ending.element()));
        }
      }
    }
  }
  return row;
}

void erase(Bytes &row, const StepParams &p, int width, int pixel) {
  for (int y = p.y; y < p.y + p.h; ++y) {
    std::fill_n(row.begin() + (y * width + p.x) * pixel, p.w * pixel, std::uint8_t{0});
  }
}

// The whole sample at one part in `scale`, where it is an image of the size that `source` claims.
std::optional<Image> open(const Source &source, bool encoded, int channels, int scale) {
  Image image;
  if (source.height < 1 || source.width < 1) return std::nullopt;
  const double bytes = static_cast<double>(source.height) * source.width * channels;
  if (!encoded) {
    if (bytes != static_cast<double>(source.size)) return std::nullopt;
    image.shape(source.height, source.width, channels);
    std::copy_n(source.data, source.size, image.pixels.begin());
    return image;
  }
  if (channels != 3 || std::max(source.height, source.width) > 65535) return std::nullopt;
  if (scale != 1 && scale != 2 && scale != 4 && scale != 8) return std::nullopt;
  const int height = (source.height + scale - 1) / scale, width = (source.width + scale - 1) / scale;
  JpegDecoder decoder;
  View view;
  const Status status = decoder.decode(source.data, static_cast<std::size_t>(source.size), source.height,
                                       source.width, scale, {0, 0, height, width}, view);
  if (status != Status::ok) return std::nullopt;
  image.shape(height, width, 3);
  for (int y = 0; y < view.height; ++y) {
    std::copy_n(view.data + y * view.stride, 3 * view.width, image.at(y, 0));
  }
  return image;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  FuzzedDataProvider provider(data, size);
  Choices choices(provider);
  const bool encoded = choices.between(0, 3) != 0;
  const int channels = encoded && !choices.rarely() ? 3 : choices.between(1, 4);
  const Ending ending = choose_ending(choices, channels);

  std::int32_t height = choices.between(1, 40), width = choices.between(1, 40);
  const bool believed = !choices.rarely();  // the size that the sample itself claims
  const bool exact = !choices.rarely();     // as many bytes as the pixels need
  std::vector<StepKind> kinds(static_cast<std::size_t>(choices.between(0, kSteps)));
  for (StepKind &kind : kinds) kind = kKinds[choices.between(0, std::ssize(kKinds) - 1)];
  // The numbers of the steps are drawn before the sample, whose size they may need.
  const Bytes numbers = [&] {
    Bytes drawn;
    for (int i = 0; i < 48 * kSteps + 16; ++i) drawn.push_back(static_cast<std::uint8_t>(choices.between(0, 255)));
    return drawn;
  }();
  Bytes bytes = provider.ConsumeRemainingBytes<std::uint8_t>();
  FuzzedDataProvider numbers_provider(numbers.data(), numbers.size());
  Choices chosen(numbers_provider);

  if (encoded) {
    JpegFacts facts;
    const bool ours = read_jpeg(bytes.data(), bytes.size(), facts);
    if (std::int64_t{facts.height} * facts.width > kMostPixels) return 0;
    if (believed && (ours || facts.height * facts.width > 0)) height = facts.height, width = facts.width;
  } else if (exact) {
    bytes.resize(static_cast<std::size_t>(height * width * channels));
  }
  if (!believed) (chosen.between(0, 1) ? height : width) = chosen.hostile();
  const Bytes sample(bytes.data(), bytes.data() + bytes.size());  // a block of this very size
  const Source source{sample.data(), static_cast<std::int64_t>(sample.size()), height, width};

  // Only what is decoded for a window can be decoded smaller.
  const bool region = encoded && !kinds.empty() && makes_image(kinds[0]) && !form_of(kinds[0]);
  int scale = region && chosen.between(0, 3) == 0 ? 1 << chosen.between(0, 3) : 1;
  if (region && chosen.rarely()) scale = chosen.hostile();
  const int part = std::clamp(scale, 1, 8);
  std::optional<Image> image = open(source, encoded, channels, scale);
  const bool opened = image.has_value();
  std::vector<StepParams> params(static_cast<std::size_t>(kSamples) * std::max<std::size_t>(kinds.size(), 1));
  int now_height = (std::clamp(height, 1, 65535) + part - 1) / part;
  int now_width = (std::clamp(width, 1, 65535) + part - 1) / part;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    StepParams p = choose_params(chosen, kinds[i], now_height, now_width);
    p.scale = i == 0 ? scale : chosen.between(0, 1);
    if (is_heavy(kinds[i], p, now_height, channels)) return 0;
    params[static_cast<std::size_t>(kSamples) * i + 1] = p;
    if (image) image = apply(kinds[i], p, *image);
    if (!makes_image(kinds[i])) continue;
    now_height = std::clamp(kinds[i] == StepKind::crop ? p.h : p.out_h, 1, 1 << 20);
    now_width = std::clamp(kinds[i] == StepKind::crop ? p.w : p.out_w, 1, 1 << 20);
  }
  if (chosen.rarely() || std::int64_t{now_height} * now_width > kMostPixels) {
    now_height = chosen.between(1, 64);
    now_width = chosen.between(1, 64);
  }
  bool fits = image && image->height == now_height && image->width == now_width;
  std::vector<StepParams> erased;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const StepParams &p = params[static_cast<std::size_t>(kSamples) * i + 1];
    if (kinds[i] != StepKind::erase || p.h == 0) continue;
    fits = fits && p.y >= 0 && p.x >= 0 && p.h > 0 && p.w > 0 && p.h <= now_height - p.y && p.w <= now_width - p.x;
    erased.push_back(p);
  }

  const Program program(kinds, encoded, channels, ending.stored, ending.cast, ending.scale.data(),
                        ending.offset.data(), ending.table.data(), normals());
  const auto row_bytes = static_cast<std::size_t>(program.pixel_bytes() * now_height * now_width);
  std::optional<std::pair<Status, Bytes>> before;
  for (const CpuLevel level : {CpuLevel::portable, CpuLevel::avx2}) {
    if (!force_cpu_level(level)) continue;
    Scratch scratch;
    Bytes row(row_bytes, kUntouched);
    const Status status = program.run(source, params.data() + 1, kSamples, {row.data(), now_height, now_width}, scratch);
    if (status != Status::ok) {
      expect(std::all_of(row.begin(), row.end(), [](std::uint8_t b) { return b == kUntouched; }),
             "a row whose sample fails stays as it was");
    }
    if (fits) {
      expect(status == Status::ok, "a good sample with fitting parameters is good");
      Bytes wanted = written(*image, ending);
      for (const StepParams &p : erased) erase(wanted, p, now_width, static_cast<int>(program.pixel_bytes()));
      expect(row == wanted, "a program is its steps, one after another");
    } else if (opened || !encoded || channels != 3) {
      expect(status == Status::misfit || status == Status::no_memory || status == Status::damaged,
             "what does not fit is refused");
    }
    expect(!before || *before == std::pair(status, row), "every CPU level gives the same bits");
    before = {status, std::move(row)};
  }
  return 0;
}

// The Python module dtsflow.native._core: arrays in, statuses out, the GIL released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "cpu.hpp"
#include "crc.hpp"
#include "drawings.hpp"
#include "draws.hpp"
#include "jpeg_header.hpp"
#include "jpeg_restarts.hpp"
#include "mix.hpp"
#include "program.hpp"
#include "recipe.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace dtsflow;

template <typename T, std::size_t... kShape>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

using Memory = In<std::uint8_t>;
using Places = In<std::int64_t>;

constexpr std::size_t kStepNumbers = sizeof(StepParams) / sizeof(std::int32_t);
constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

// Refuse what would read or write outside an array: the caller's bug, said by name.
void require(bool holds, const char *what) {
  if (!holds) throw std::invalid_argument(what);
}

void check_places(std::size_t memory, const Places &offsets, const Places &sizes) {
  require(offsets.size() == sizes.size(), "offsets and sizes differ in length");
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::int64_t offset = offsets.data()[i], size = sizes.data()[i];
    require(offset >= 0 && size >= 0 && static_cast<std::uint64_t>(offset) <= memory &&
                static_cast<std::uint64_t>(size) <= memory - static_cast<std::uint64_t>(offset),
            "a sample lies outside the memory");
  }
}

// facts: int32 (n, 4): height, width, whether there is EXIF, status.
void probe(const Memory &memory, const Places &offsets, const Places &sizes,
           const Out<std::int32_t> &facts) {
  check_places(memory.size(), offsets, sizes);
  require(facts.size() == 4 * offsets.size(), "facts must hold four numbers a sample");
  const std::uint8_t *const base = memory.data();
  const std::int64_t *const at = offsets.data(), *const bytes = sizes.data();
  std::int32_t *out = facts.data();
  const std::size_t count = offsets.size();
  nb::gil_scoped_release released;
  for (std::size_t i = 0; i < count; ++i, out += 4) {
    JpegFacts found;
    const bool ours = read_jpeg(base + at[i], static_cast<std::size_t>(bytes[i]), found);
    out[0] = ours ? found.height : 0;
    out[1] = ours ? found.width : 0;
    out[2] = ours && found.exif;
    out[3] = static_cast<std::int32_t>(ours ? Status::ok : Status::not_ours);
  }
}

Scratch &scratch() {
  thread_local Scratch kept;
  return kept;
}

// shapes: int32 (n, 2), the images' sizes; params: int32 (steps, n, 23); rows: int64 (n),
// where in `out` each sample's pixels begin; out_shapes: int32 (n, 2), what comes out.
void run_chunk(const Program &program, const Memory &memory, const Places &offsets,
               const Places &sizes, const In<std::int32_t> &shapes, const In<std::int32_t> &params,
               const Out<std::uint8_t> &out, const Places &rows,
               const In<std::int32_t> &out_shapes, const Out<std::int32_t> &status) {
  check_places(memory.size(), offsets, sizes);
  const std::size_t count = offsets.size();
  require(shapes.size() == 2 * count && out_shapes.size() == 2 * count,
          "shapes must hold two numbers a sample");
  require(params.size() == kStepNumbers * count * program.steps(),
          "params must hold 23 numbers a step");
  require(rows.size() == count && status.size() == count, "one row and one status a sample");
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t row = rows.data()[i];
    const std::int64_t height = out_shapes.data()[2 * i], width = out_shapes.data()[2 * i + 1];
    require(height >= 1 && width >= 1 && row >= 0 &&
                height <= kMostBytes / (width * program.pixel_bytes()) &&
                row <= static_cast<std::int64_t>(out.size()) - height * width * program.pixel_bytes(),
            "a row lies outside the output");
  }
  const std::uint8_t *const base = memory.data();
  const std::int64_t *const at = offsets.data(), *const bytes = sizes.data();
  const std::int32_t *const shape = shapes.data();
  const auto *const chosen = reinterpret_cast<const StepParams *>(params.data());
  std::uint8_t *const to = out.data();
  const std::int64_t *const row = rows.data();
  const std::int32_t *const out_shape = out_shapes.data();
  std::int32_t *const state = status.data();
  nb::gil_scoped_release released;
  Scratch &own = scratch();
  for (std::size_t i = 0; i < count; ++i) {
    const Source source{base + at[i], bytes[i], shape[2 * i], shape[2 * i + 1]};
    const Target target{to + row[i], out_shape[2 * i], out_shape[2 * i + 1]};
    state[i] = static_cast<std::int32_t>(
        program.run(source, chosen + i, static_cast<std::ptrdiff_t>(count), target, own));
  }
}

using Words = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;

Address address_of(const Words &words) {
  return {std::get<0>(words), std::get<1>(words), std::get<2>(words), std::get<3>(words)};
}

// `address`: seed/address.py's pass_words. rows: int64 (n), the number of each sample's row
// among those that lie in `out` from byte `first` on. Answers how many samples have another
// status than ok; rows of those that are `not_ours` are left to the caller.
std::size_t fill_chunk(const Recipe &recipe, const Memory &memory, const Places &offsets,
                       const Places &sizes, const Places &ids, const Words &address,
                       const Out<std::uint8_t> &out, std::int64_t first, const Places &rows,
                       const Out<std::int32_t> &status) {
  check_places(memory.size(), offsets, sizes);
  const std::size_t count = offsets.size();
  require(ids.size() == count && rows.size() == count && status.size() == count,
          "one id, one row and one status a sample");
  const std::int64_t row_bytes = recipe.row_bytes();
  const auto out_bytes = static_cast<std::int64_t>(out.size());
  require(first >= 0 && first <= out_bytes, "a row lies outside the output");
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t row = rows.data()[i];
    require(row >= 0 && row < (out_bytes - first) / row_bytes, "a row lies outside the output");
  }
  const std::uint8_t *const base = memory.data();
  const std::int64_t *const at = offsets.data(), *const bytes = sizes.data();
  const std::int64_t *const id = ids.data(), *const row = rows.data();
  std::uint8_t *const to = out.data() + first;
  std::int32_t *const state = status.data();
  const Address where = address_of(address);
  std::size_t others = 0;
  nb::gil_scoped_release released;
  Scratch &own = scratch();
  for (std::size_t i = 0; i < count; ++i) {
    const Order order{base + at[i], bytes[i], id[i], to + row[i] * row_bytes};
    const Status found = recipe.run(order, where, own);
    state[i] = static_cast<std::int32_t>(found);
    others += found != Status::ok;
  }
  return others;
}

// What fill_chunk draws. shapes: int32 (n, 2), the images' sizes; params: int32 (n, steps,
// 23). Answers how many samples are left to the reference; their parameters mean nothing.
std::size_t draw_chunk(const Drawings &drawings, const In<std::int32_t> &shapes,
                       const Places &ids, const Words &address, bool shrinks,
                       const Out<std::int32_t> &params, const Out<std::int32_t> &status) {
  const std::size_t count = ids.size();
  require(shapes.size() == 2 * count && status.size() == count, "one shape and status a sample");
  require(params.size() == kStepNumbers * count * drawings.steps(),
          "params must hold 23 numbers a step");
  const std::int32_t *const shape = shapes.data();
  for (std::size_t i = 0; i < 2 * count; ++i) require(shape[i] >= 1, "an image without pixels");
  const std::int64_t *const id = ids.data();
  auto *chosen = reinterpret_cast<StepParams *>(params.data());
  std::int32_t *const state = status.data();
  const Address where = address_of(address);
  std::size_t others = 0;
  nb::gil_scoped_release released;
  for (std::size_t i = 0; i < count; ++i, chosen += drawings.steps()) {
    const Size size{shape[2 * i], shape[2 * i + 1]};
    const Status found = drawings.draw(size, id[i], where, shrinks, chosen);
    state[i] = static_cast<std::int32_t>(found);
    others += found != Status::ok;
  }
  return others;
}

// rows: those of one lane, as bytes; partners: int64 (q), each row once.
Lane lane_of(const Out<std::uint8_t> &rows, const Places &partners) {
  const auto count = static_cast<std::int64_t>(partners.size());
  const auto bytes = static_cast<std::int64_t>(rows.size());
  require(count >= 1 && bytes % count == 0, "rows of one size, and a partner for each");
  std::optional<Lane> lane = Lane::of(rows.data(), bytes / count, partners.data(), count);
  require(lane.has_value(), "each row is the partner of one row");
  return *std::move(lane);
}

void mix_rows(const Out<std::uint8_t> &rows, int cast, const Places &partners, float share) {
  require(cast >= 0 && cast <= static_cast<int>(Cast::fp32), "unknown cast");
  const Lane lane = lane_of(rows, partners);
  const std::size_t row_bytes = rows.size() / partners.size();
  require(row_bytes % static_cast<std::size_t>(element_bytes(static_cast<Cast>(cast))) == 0,
          "a row of whole elements");
  nb::gil_scoped_release released;
  lane.blend(static_cast<Cast>(cast), share);
}

// window: the first byte of its first line, bytes and number of the lines, bytes of a line
// of the image.
void paste_rows(const Out<std::uint8_t> &rows, const Places &partners,
                const std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t> &window) {
  const Lane lane = lane_of(rows, partners);
  const auto [first, bytes, lines, stride] = window;
  const auto row_bytes = static_cast<std::int64_t>(rows.size() / partners.size());
  require(first >= 0 && bytes >= 0 && lines >= 0 && stride >= bytes &&
              (lines == 0 || (stride <= row_bytes / lines &&
                              first <= row_bytes - (lines - 1) * stride - bytes)),
          "a window lies outside its row");
  nb::gil_scoped_release released;
  lane.paste(first, bytes, lines, stride);
}

void philox_words(const In<std::uint32_t> &counters, std::uint32_t key0, std::uint32_t key1,
                  const Out<std::uint32_t> &words) {
  require(counters.size() % 4 == 0 && words.size() == counters.size(), "four words a counter");
  const std::uint32_t *const in = counters.data();
  std::uint32_t *const out = words.data();
  const std::size_t count = counters.size() / 4;
  nb::gil_scoped_release released;
  philox(in, count, key0, key1, out);
}

// The bytes of any contiguous buffer, held from here to the end of its scope.
class Bytes {
 public:
  explicit Bytes(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &held_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~Bytes() { PyBuffer_Release(&held_); }
  Bytes(const Bytes &) = delete;
  Bytes &operator=(const Bytes &) = delete;

  const std::uint8_t *data() const { return static_cast<const std::uint8_t *>(held_.buf); }
  std::size_t size() const { return static_cast<std::size_t>(held_.len); }

 private:
  Py_buffer held_;
};

std::uint32_t crc_of(nb::handle buffer, std::uint32_t value) {
  const Bytes bytes(buffer);
  nb::gil_scoped_release released;  // taken again before the bytes are let go
  return crc32(bytes.data(), bytes.size(), value);
}

// The JPEG with restart markers, None where it has to stay as it is.
nb::object with_restarts(nb::handle buffer) {
  const Bytes bytes(buffer);
  thread_local Buffer<std::uint8_t> made;
  std::size_t size = 0;
  bool is_made;
  {
    nb::gil_scoped_release released;
    is_made = add_restarts(bytes.data(), bytes.size(), made, size);
  }
  return is_made ? nb::object(nb::bytes(made.get(), size)) : nb::none();
}

void make_program(Program *at, const std::vector<int> &kinds, bool encoded, int channels,
                  int stored_channels, int cast, const In<float> &scale, const In<float> &offset,
                  const Memory &table, const std::optional<In<std::int16_t>> &normals) {
  require(channels >= 1 && channels <= 4 && stored_channels >= channels && stored_channels <= 8,
          "1 to 4 channels, stored in up to 8");
  require(cast >= 0 && cast <= static_cast<int>(Cast::fp32), "unknown cast");
  std::vector<StepKind> steps;
  for (const int kind : kinds) {
    steps.push_back(static_cast<StepKind>(kind));
    require(Program::knows(steps.back()), "unknown step");
    require(steps.back() != StepKind::noise || normals, "noise takes the normals");
  }
  std::vector<std::int16_t> quantiles;
  if (normals) {
    require(normals->size() == kNormals, "32768 normals");
    quantiles.assign(normals->data(), normals->data() + kNormals);
  }
  Finish finish;
  finish.cast = static_cast<Cast>(cast);
  if (finish.cast != Cast::uint8) {
    require(scale.size() == static_cast<std::size_t>(channels) && offset.size() == scale.size(),
            "one scale and offset a channel");
    require(table.size() == static_cast<std::size_t>(256 * channels * element_bytes(finish.cast)),
            "a table of 256 elements a channel");
  }
  new (at) Program(std::move(steps), encoded, channels, stored_channels, finish.cast, scale.data(),
                   offset.data(), table.data(), std::move(quantiles));
}

using Chosen = std::tuple<int, std::uint32_t, std::vector<double>>;
using Sides = std::tuple<std::int64_t, std::int64_t>;

void make_drawings(Drawings *at, const std::vector<Chosen> &drawings) {
  std::vector<Drawing> made;
  for (const auto &[kind, position, numbers] : drawings) {
    require(kind >= 0 && kind < kDrawKinds, "unknown drawing");
    require(numbers.size() <= kDrawNumbers, "at most 12 numbers a drawing");
    Drawing &drawing = made.emplace_back(Drawing{static_cast<DrawKind>(kind), position, {}});
    std::copy(numbers.begin(), numbers.end(), drawing.numbers);
  }
  new (at) Drawings(std::move(made));
}

void make_recipe(Recipe *at, const Program &program, const Drawings &drawings,
                 const Sides &pixels, bool turns, bool shrinks, const Sides &out) {
  require(drawings.steps() == program.steps(), "one drawing a step");
  const Size size{std::get<0>(out), std::get<1>(out)};
  require(size.height >= 1 && size.width >= 1 && size.height <= kMostSide &&
              size.width <= kMostSide,
          "a row has 1 to 2^24 pixels a side");
  const Size stored{std::get<0>(pixels), std::get<1>(pixels)};
  require(program.encoded() || (stored.height >= 1 && stored.width >= 1 &&
                                stored.height <= kMostSide && stored.width <= kMostSide),
          "an image has 1 to 2^24 pixels a side");
  new (at) Recipe(program, drawings, Reading{stored, turns, shrinks}, size);
}

}  // namespace

NB_MODULE(_core, module) {
  nb::class_<Program>(module, "Program")
      .def("__init__", &make_program, "kinds"_a, "encoded"_a, "channels"_a, "stored_channels"_a,
           "cast"_a, "scale"_a, "offset"_a, "table"_a, "normals"_a = nb::none());
  nb::class_<Drawings>(module, "Drawings").def("__init__", &make_drawings, "steps"_a);
  nb::class_<Recipe>(module, "Recipe")
      .def("__init__", &make_recipe, nb::keep_alive<1, 2>(), "program"_a, "drawings"_a, "pixels"_a,
           "turns"_a, "shrinks"_a, "out"_a);
  module.def("fill_chunk", &fill_chunk, "recipe"_a, "memory"_a, "offsets"_a, "sizes"_a, "ids"_a,
             "address"_a, "out"_a, "first"_a, "rows"_a, "status"_a);
  module.def("draw_chunk", &draw_chunk, "drawings"_a, "shapes"_a, "ids"_a, "address"_a,
             "shrinks"_a, "params"_a, "status"_a);
  module.def("probe", &probe, "memory"_a, "offsets"_a, "sizes"_a, "facts"_a);
  module.def("run_chunk", &run_chunk, "program"_a, "memory"_a, "offsets"_a, "sizes"_a, "shapes"_a,
             "params"_a, "out"_a, "rows"_a, "out_shapes"_a, "status"_a);
  module.def("mix_rows", &mix_rows, "rows"_a, "cast"_a, "partners"_a, "share"_a);
  module.def("paste_rows", &paste_rows, "rows"_a, "partners"_a, "window"_a);
  module.def("philox", &philox_words, "counters"_a, "key0"_a, "key1"_a, "words"_a);
  module.def("add_restarts", &with_restarts, "jpeg"_a);
  module.def("crc32", &crc_of, "buffer"_a, "value"_a = 0);
  module.def("cpu_level",
             [] { return std::string(cpu_level() == CpuLevel::avx2 ? "avx2" : "portable"); });
  module.def("force_cpu_level", [](const std::string &name) {
    require(name == "avx2" || name == "portable", "the levels are portable and avx2");
    return force_cpu_level(name == "avx2" ? CpuLevel::avx2 : CpuLevel::portable);
  });
}

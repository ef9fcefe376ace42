// A chain of operations on one sample: decode, the steps, the write to its row.
#pragma once

#include <memory>
#include <vector>

#include "jpeg_region.hpp"
#include "step.hpp"
#include "write.hpp"

namespace dtsflow {

struct Source {
  const std::uint8_t *data;
  std::int64_t size;
  std::int32_t height, width;  // what the probe said, or the size of stored pixels
};

struct Target {
  std::uint8_t *data;  // compact rows
  std::int32_t height, width;
};

// What one thread keeps from sample to sample.
struct Scratch {
  JpegDecoder jpeg;
  StepScratch step;
  Buffer<std::uint8_t> padded;
  Buffer<StepParams> params;  // of the sample at hand, where the core draws them
};

class Program {
 public:
  // The tables are copied. `encoded`: samples are JPEGs; otherwise they are pixels.
  // `normals`: kNormals numbers for the noise, or nothing where no step makes any.
  Program(std::vector<StepKind> steps, bool encoded, int channels, int stored_channels, Cast cast,
          const float *scale, const float *offset, const void *table,
          std::vector<std::int16_t> normals = {});

  // Run on one sample whose parameters lie `params_stride` entries apart, a step each, and
  // write what must come out `target.height` x `target.width`.
  Status run(const Source &source, const StepParams *params, std::ptrdiff_t params_stride,
             const Target &target, Scratch &scratch) const;

  static bool knows(StepKind kind);
  bool encoded() const { return encoded_; }
  std::size_t steps() const { return steps_.size(); }
  std::int64_t pixel_bytes() const;

 private:
  Status open(const Source &source, const StepParams *first, int scale, Scratch &scratch,
              View &view) const;
  Status step(StepKind kind, const StepParams &params, const Window &origin, Scratch &scratch,
              View &view) const;
  void erase(const StepParams *params, std::ptrdiff_t params_stride, const Target &target) const;
  bool begins_with_window() const;

  std::vector<StepKind> steps_;
  bool encoded_;
  Finish finish_;
  std::vector<float> affine_;
  std::vector<std::uint8_t> table_;
  std::vector<std::int16_t> normals_;
};

}  // namespace dtsflow

// A chain with its draws: from the stored bytes of a sample to its row in one go.
#pragma once

#include <cstdint>

#include "drawings.hpp"
#include "program.hpp"
#include "status.hpp"

namespace dtsflow {

// What a sample of a chunk is, and where its row lies.
struct Order {
  const std::uint8_t *data;
  std::int64_t size;
  std::int64_t id;
  std::uint8_t *row;
};

// How a recipe reads what is stored.
struct Reading {
  Size pixels;   // of each image of a pixel set
  bool turns;    // EXIF orientations count, so a JPEG with EXIF is not ours
  bool shrinks;  // JPEGs are decoded at a part of their size where that will do
};

class Recipe {
 public:
  // One drawing for each step of `program`, in order; the program must outlive this. Rows
  // are `out` in size.
  Recipe(const Program &program, Drawings drawings, const Reading &reading, Size out);

  // Probe one sample, draw its parameters, run the program and write its row. Where the
  // status is `not_ours` the reference has to judge the sample, or to draw for it.
  Status run(const Order &order, const Address &address, Scratch &scratch) const;

  std::int64_t row_bytes() const { return out_.height * out_.width * program_->pixel_bytes(); }

 private:
  const Program *program_;
  Drawings drawings_;
  Reading reading_;
  Size out_;
};

}  // namespace dtsflow

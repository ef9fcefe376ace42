// The drawings of a chain, one step after another.
#pragma once

#include <utility>
#include <vector>

#include "drawing.hpp"
#include "status.hpp"

namespace dtsflow {

class Drawings {
 public:
  explicit Drawings(std::vector<Drawing> steps) : steps_(std::move(steps)) {}

  // The parameters of every step for an image of `size`. Where it `shrinks` the first step
  // cuts a window and scales it, and the image may be decoded at a part of its size. Where
  // the status is `not_ours` the reference has to draw: an id has no room in an address, or
  // the image gets too big.
  Status draw(Size size, std::int64_t id, const Address &address, bool shrinks,
              StepParams *params) const;

  std::size_t steps() const { return steps_.size(); }

 private:
  std::vector<Drawing> steps_;
};

}  // namespace dtsflow

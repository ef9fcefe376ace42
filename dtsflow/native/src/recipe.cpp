#include "recipe.hpp"

#include <utility>

#include "jpeg_header.hpp"

namespace dtsflow {

Recipe::Recipe(const Program &program, Drawings drawings, const Reading &reading, Size out)
    : program_(&program), drawings_(std::move(drawings)), reading_(reading), out_(out) {}

Status Recipe::run(const Order &order, const Address &address, Scratch &scratch) const {
  Size size = reading_.pixels;
  if (program_->encoded()) {
    JpegFacts facts;
    if (!read_jpeg(order.data, static_cast<std::size_t>(order.size), facts) ||
        (reading_.turns && facts.exif)) {
      return Status::not_ours;
    }
    size = {facts.height, facts.width};
  }
  StepParams *const params = scratch.params.room(drawings_.steps());
  if (!params) return Status::no_memory;
  const Status drawn = drawings_.draw(size, order.id, address, reading_.shrinks, params);
  if (drawn != Status::ok) return drawn;
  const Source source{order.data, order.size, static_cast<std::int32_t>(size.height),
                      static_cast<std::int32_t>(size.width)};
  const Target target{order.row, static_cast<std::int32_t>(out_.height),
                      static_cast<std::int32_t>(out_.width)};
  return program_->run(source, params, 1, target, scratch);
}

}  // namespace dtsflow

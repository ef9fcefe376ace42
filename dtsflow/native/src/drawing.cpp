#include "drawing.hpp"

#include <algorithm>

#include "choice.hpp"

namespace dtsflow {

void choose(const Drawing &drawing, Draws &draws, Size &size, StepParams &params) {
  const double *const numbers = drawing.numbers;
  switch (drawing.kind) {
    case DrawKind::resized_crop:
    case DrawKind::log_resized_crop:
      choose_resized_crop(numbers, drawing.kind == DrawKind::log_resized_crop, draws, size, params);
      size = size_of(numbers);
      break;
    case DrawKind::crop:
      choose_crop(numbers, draws, size, params);
      size = size_of(numbers);
      break;
    case DrawKind::centre_crop:
      choose_centre(numbers, size, params);
      size = size_of(numbers);
      break;
    case DrawKind::flip:
      params.y = draws.uniform(0) < numbers[0];
      break;
    case DrawKind::resize_short: {
      choose_whole(size, params);
      const std::int64_t side = length(numbers[0]), shorter = std::min(size.height, size.width);
      size = {side * size.height / shorter, side * size.width / shorter};
      break;
    }
    case DrawKind::resize_exact:
      choose_whole(size, params);
      size = size_of(numbers);
      break;
    case DrawKind::resize_square:
      choose_square(size, params);
      size = size_of(numbers);
      break;
    case DrawKind::pad:
      choose_pad(numbers, size, params);
      break;
    case DrawKind::erase:
      choose_erase(numbers, draws, size, params);
      break;
    case DrawKind::chance:
      params.own[0] = draws.uniform(0) < numbers[0];
      break;
    case DrawKind::jitter:
      choose_jitter(numbers, draws, params);
      break;
    case DrawKind::rotate:
      choose_rotation(numbers, draws, size, params);
      break;
    case DrawKind::affine:
      choose_affine(numbers, draws, size, params);
      break;
    case DrawKind::rescale:
      choose_rescaling(numbers, draws, size, params);
      break;
    case DrawKind::blur:
      choose_blur(numbers, draws, params);
      break;
    case DrawKind::noise:
      choose_noise(numbers, draws, params);
      break;
    case DrawKind::rand_augment:
      choose_rand_augment(numbers, draws, size, params);
      break;
    case DrawKind::trivial_augment:
      choose_trivial_augment(numbers, draws, size, params);
      break;
  }
}

}  // namespace dtsflow

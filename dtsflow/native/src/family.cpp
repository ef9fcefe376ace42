#include "family.hpp"

#include "geometry.hpp"

namespace dtsflow {

const Form *form_of(StepKind kind) {
  static constexpr Form kFlipRows{flip_rows, true}, kPlace{place, false}, kWarp{warp, false},
      kRescale{rescale, false};
  switch (kind) {
    case StepKind::flip_rows:
      return &kFlipRows;
    case StepKind::place:
      return &kPlace;
    case StepKind::warp:
      return &kWarp;
    case StepKind::rescale:
      return &kRescale;
    default:
      return nullptr;
  }
}

}  // namespace dtsflow

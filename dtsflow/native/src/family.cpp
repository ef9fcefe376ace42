#include "family.hpp"

#include "augment.hpp"
#include "blur.hpp"
#include "geometry.hpp"
#include "jitter.hpp"
#include "noise.hpp"
#include "sharpen.hpp"
#include "tone.hpp"

namespace dtsflow {

const Form *form_of(StepKind kind) {
  static constexpr Form kFlipRows{flip_rows, true}, kPlace{place, false}, kWarp{warp, false},
      kRescale{rescale, false};
  static constexpr Form kJitter{jitter, true}, kGrayscale{grayscale, true};
  static constexpr Form kAutocontrast{autocontrast, true}, kBlur{blur, true};
  static constexpr Form kNoise{noise, false};  // each place of an image has its own
  static constexpr Form kPosterize{posterize, true}, kSolarize{solarize, true};
  static constexpr Form kEqualize{equalize, true}, kSharpen{sharpen, true};
  static constexpr Form kAugment{augment, false};
  switch (kind) {
    case StepKind::jitter:
      return &kJitter;
    case StepKind::grayscale:
      return &kGrayscale;
    case StepKind::autocontrast:
      return &kAutocontrast;
    case StepKind::blur:
      return &kBlur;
    case StepKind::noise:
      return &kNoise;
    case StepKind::flip_rows:
      return &kFlipRows;
    case StepKind::place:
      return &kPlace;
    case StepKind::warp:
      return &kWarp;
    case StepKind::rescale:
      return &kRescale;
    case StepKind::posterize:
      return &kPosterize;
    case StepKind::solarize:
      return &kSolarize;
    case StepKind::equalize:
      return &kEqualize;
    case StepKind::sharpen:
      return &kSharpen;
    case StepKind::augment:
      return &kAugment;
    default:
      return nullptr;
  }
}

}  // namespace dtsflow

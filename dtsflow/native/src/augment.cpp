#include "augment.hpp"

#include <algorithm>

#include "family.hpp"

namespace dtsflow {

Status augment(View &view, const StepParams &params, StepScratch &scratch) {
  if (params.own[0] == -1) return Status::ok;
  StepParams inner = params;
  std::copy(params.own + 1, params.own + kOwnNumbers, inner.own);
  inner.own[kOwnNumbers - 1] = 0;
  const auto kind = static_cast<StepKind>(params.own[0]);
  switch (kind) {
    case StepKind::warp:
    case StepKind::jitter:
    case StepKind::autocontrast:
    case StepKind::posterize:
    case StepKind::solarize:
    case StepKind::equalize:
    case StepKind::sharpen:
      return form_of(kind)->make(view, inner, scratch);
    default:
      return Status::misfit;
  }
}

}  // namespace dtsflow

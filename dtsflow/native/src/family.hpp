// The steps that make an image of a whole image, each kind from its family's file.
#pragma once

#include "step.hpp"

namespace dtsflow {

// Replace `view`, which may be read kSlack bytes past its end, by what the step makes of
// it in `scratch.images`, or leave it where the step changes nothing. It trusts none of
// the numbers in `params`: what does not fit is a misfit.
using Make = Status (*)(View &view, const StepParams &params, StepScratch &scratch);

struct Form {
  Make make;
  bool is_blind;  // to left and right: it may go before a mirror that stands before it
};

// nullptr for the kinds that Program knows itself, and for numbers that are no kind.
const Form *form_of(StepKind kind);

}  // namespace dtsflow

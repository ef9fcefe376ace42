// The separable blur of dtsflow/po/blur.py.
#pragma once

#include "step.hpp"

namespace dtsflow {

// Own numbers: the radius, 0 to 29, then as int16 the weight of the middle and of each
// distance from it; in all, both sides counted, they are 2^14. Borders reflect.
Status blur(View &view, const StepParams &params, StepScratch &scratch);

}  // namespace dtsflow

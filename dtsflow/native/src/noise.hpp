// Normal noise on every pixel and channel, as dtsflow/po/blur.py defines it.
#pragma once

#include "step.hpp"

namespace dtsflow {

// Own numbers: two words that key the sample's random numbers, then the mean and the
// deviation as floats. `scratch.normals` must be there.
Status noise(View &view, const StepParams &params, StepScratch &scratch);

}  // namespace dtsflow

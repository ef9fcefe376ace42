// An image mixed with a smoothed one, as dtsflow/po/augment.py defines it.
#pragma once

#include "step.hpp"

namespace dtsflow {

// The first own number, a float: 0 gives the smoothed image, 1 the image, more sharpens.
Status sharpen(View &view, const StepParams &params, StepScratch &scratch);

}  // namespace dtsflow

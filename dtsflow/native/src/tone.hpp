// Gray, and the contrast stretched, as dtsflow/po/grayscale.py and autocontrast.py have it.
#pragma once

#include "step.hpp"

namespace dtsflow {

// Where the first own number is not 0: all three channels become the luma.
Status grayscale(View &view, const StepParams &params, StepScratch &scratch);

// Where the first own number is not 0: each channel from its least to its greatest value
// becomes 0 to 255.
Status autocontrast(View &view, const StepParams &params, StepScratch &scratch);

}  // namespace dtsflow

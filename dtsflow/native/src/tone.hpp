// Values by tables, and gray: see dtsflow/po/color.py, autocontrast.py and levels.py.
#pragma once

#include "step.hpp"

namespace dtsflow {

// Where the first own number is not 0: all three channels become the luma.
Status grayscale(View &view, const StepParams &params, StepScratch &scratch);

// Where the first own number is not 0: each channel from its least to its greatest value
// becomes 0 to 255.
Status autocontrast(View &view, const StepParams &params, StepScratch &scratch);

// Keeps as many high bits as the first own number says, 0 to 8.
Status posterize(View &view, const StepParams &params, StepScratch &scratch);

// Values from the first own number on, a float, are taken from 255.
Status solarize(View &view, const StepParams &params, StepScratch &scratch);

// Each channel's values spread so that all are about equally frequent.
Status equalize(View &view, const StepParams &params, StepScratch &scratch);

}  // namespace dtsflow

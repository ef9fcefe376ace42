// Brightness, contrast, saturation and hue, as dtsflow/po/color.py defines them.
#pragma once

#include "step.hpp"

namespace dtsflow {

// The operation's own parameters, as they lie in StepParams::own: up to four of 0
// brightness, 1 contrast, 2 saturation, 3 hue, in their order, -1 for none; the first three's
// factors; the shift of the hue, 0 to 255.
struct Jitter {
  std::int32_t order[4];
  float factors[3];
  std::int32_t hue;
};

// Hue takes three channels; of one, saturation changes nothing.
Status jitter(View &view, const StepParams &params, StepScratch &scratch);

}  // namespace dtsflow

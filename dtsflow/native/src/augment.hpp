// One step of several kinds, which its own numbers choose: see dtsflow/po/augment.py.
#pragma once

#include "step.hpp"

namespace dtsflow {

// The first own number is the kind of the step, -1 for none; the others are that step's.
Status augment(View &view, const StepParams &params, StepScratch &scratch);

}  // namespace dtsflow

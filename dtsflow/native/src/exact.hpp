// Elementary functions whose bits no library decides: those of dtsflow/seed/exact.py, in the
// same single operations, each of which IEEE 754 rounds in one way only.
#pragma once

namespace dtsflow {

// e to `power`, which is from -8 to 8.
double exact_exp(double power);

struct SinCos {
  double sine, cosine;
};

// Of at most a million degrees.
SinCos exact_sin_cos(double degrees);

}  // namespace dtsflow

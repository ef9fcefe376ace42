// What became of one sample.
#pragma once

namespace dtsflow {

// The numbers are part of the interface: dtsflow/native/__init__.py names them too.
enum class Status : int {
  ok = 0,
  not_ours = 1,   // no JPEG, or one that only the reference decoder reads or judges
  damaged = 2,    // libjpeg-turbo reported an error or a warning
  no_memory = 3,  // scratch could not grow
  misfit = 4,     // parameters that do not fit the image: a bug of the caller
};

}  // namespace dtsflow

// libjpeg's errors as a jump back, for it must neither print nor exit.
#pragma once

#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

namespace dtsflow {

// The caller's setjmp is where an error comes back to. A warning is as bad as an error
// here, so it ends the work at once: a bomb cut short warns for every row.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
};

[[noreturn]] inline void give_up(j_common_ptr info) {
  std::longjmp(reinterpret_cast<JpegErrors *>(info->err)->back, 1);
}

inline jpeg_error_mgr *come_back(JpegErrors &errors) {
  jpeg_error_mgr *const manager = jpeg_std_error(&errors.manager);
  manager->error_exit = give_up;
  manager->emit_message = [](j_common_ptr info, int level) {
    if (level < 0) give_up(info);
  };
  manager->output_message = [](j_common_ptr) {};
  return manager;
}

}  // namespace dtsflow

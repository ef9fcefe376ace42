// Which instructions this process uses; every level gives the same bits.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define DTSFLOW_X86 1
#else
#define DTSFLOW_X86 0
#endif

namespace dtsflow {

// avx2 is with F16C and PCLMULQDQ, which every processor that has AVX2 has.
enum class CpuLevel { portable, avx2 };

// The level in use: the best this processor has, unless another one was forced.
CpuLevel cpu_level();

// Use `level` from now on; false, and no change, where the processor lacks it.
bool force_cpu_level(CpuLevel level);

}  // namespace dtsflow

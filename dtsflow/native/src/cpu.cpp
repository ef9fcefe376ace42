#include "cpu.hpp"

#include <atomic>

#if DTSFLOW_X86
#include <cpuid.h>
#endif

namespace dtsflow {
namespace {

CpuLevel best() {
#if DTSFLOW_X86
  __builtin_cpu_init();
  // By hand, as clang 14 does not know "f16c"; that AVX2 is usable says that this is, too.
  unsigned a, b, c = 0, d;
  const bool half = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  const bool multiply = __builtin_cpu_supports("pclmul");
  if (__builtin_cpu_supports("avx2") && half && multiply) return CpuLevel::avx2;
#endif
  return CpuLevel::portable;
}

std::atomic<CpuLevel> &current() {
  static std::atomic<CpuLevel> level{best()};
  return level;
}

}  // namespace

CpuLevel cpu_level() { return current().load(std::memory_order_relaxed); }

bool force_cpu_level(CpuLevel level) {
  if (level > best()) return false;
  current().store(level, std::memory_order_relaxed);
  return true;
}

}  // namespace dtsflow

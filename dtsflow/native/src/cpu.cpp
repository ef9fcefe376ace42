#include "cpu.hpp"

#include <atomic>

namespace dtsflow {
namespace {

CpuLevel best() {
#if DTSFLOW_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) return CpuLevel::avx2;
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

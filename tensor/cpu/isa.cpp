#include "tensor/cpu/isa.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>

#include "tensor/error.h"

namespace tessera::kernels::cpu {
namespace {

Isa best_available() {
  for (const Isa isa : {Isa::avx512, Isa::avx2})
    if (isa_available(isa)) return isa;
  return Isa::baseline;
}

Isa limit_from_environment() {
  const char* value = std::getenv("TESSERA_ISA_MAX");
  if (!value || !*value) return Isa::avx512;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
    if (name(isa) == value) return isa;
  throw ValueError(text("TESSERA_ISA_MAX: expected baseline, avx2 or avx512, got '", value, "'"));
}

std::atomic<Isa>& choice() {
  static std::atomic<Isa> isa{std::min(best_available(), limit_from_environment())};
  return isa;
}

}  // namespace

std::string_view name(Isa isa) {
  return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "baseline";
}

bool isa_available([[maybe_unused]] Isa isa) {
#if defined(TESSERA_ISA_AVX2) && defined(TESSERA_ISA_AVX512)
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (isa == Isa::avx2) return avx2;
  if (isa == Isa::avx512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return isa == Isa::baseline;
}

Isa current_isa() {
  return choice().load(std::memory_order_relaxed);
}

void set_isa_limit(Isa limit) {
  choice().store(std::min(best_available(), limit), std::memory_order_relaxed);
}

}  // namespace tessera::kernels::cpu

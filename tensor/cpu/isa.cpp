#include "tensor/cpu/isa.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "tensor/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tessera::kernels::cpu {
namespace {

#if defined(__x86_64__)

/// Bits 17 and 18 of XCR0: the system saves the configuration and the data of tiles at a context switch.
bool system_saves_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
  unsigned low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> 17 & 3) == 3;
}

#endif

std::atomic<Isa>& choice() {
  static std::atomic<Isa> isa{std::min(processor_isa(), isa_limit())};
  return isa;
}

}  // namespace

std::string_view name(Isa isa) {
  constexpr std::string_view names[] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx"};
  return names[static_cast<int>(isa)];
}

ProcessorFeatures processor_features() {
  ProcessorFeatures features;
#if defined(__x86_64__)
  features.avx2 = __builtin_cpu_supports("avx2");
  features.fma = __builtin_cpu_supports("fma");
  unsigned a = 0, b = 0, c = 0, d = 0;
  features.f16c = __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
  features.avx512f = __builtin_cpu_supports("avx512f");
  features.avx512bw = __builtin_cpu_supports("avx512bw");
  features.avx512dq = __builtin_cpu_supports("avx512dq");
  features.avx512vl = __builtin_cpu_supports("avx512vl");
  features.avx512_bf16 = __builtin_cpu_supports("avx512bf16");
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    features.amx_bf16 = d >> 22 & 1;
    features.amx_tile = d >> 24 & 1;
  }
  features.tile_state = system_saves_tiles();
#endif
  return features;
}

Isa best_isa(const ProcessorFeatures& f) {
  if (!(f.avx2 && f.fma && f.f16c)) return Isa::baseline;
  if (!(f.avx512f && f.avx512bw && f.avx512dq && f.avx512vl)) return Isa::avx2;
  if (!f.avx512_bf16) return Isa::avx512;
  return f.amx_tile && f.amx_bf16 && f.tile_state ? Isa::amx : Isa::avx512_bf16;
}

Isa parse_isa_limit(std::string_view value) {
  if (value.empty()) return Isa::amx;
  for (const Isa isa : all_isas)
    if (name(isa) == value) return isa;
  throw ConfigError(
      text("TESSERA_ISA_MAX: expected baseline, avx2, avx512, avx512_bf16 or amx, got '", value, "'"));
}

Isa processor_isa() {
#if defined(TESSERA_ISA_AVX2) && defined(TESSERA_ISA_AVX512)
  static const Isa best = best_isa(processor_features());
  return best;
#else
  return Isa::baseline;
#endif
}

Isa isa_limit() {
  static const Isa limit = [] {
    const char* value = std::getenv("TESSERA_ISA_MAX");
    return parse_isa_limit(value ? value : "");
  }();
  return limit;
}

bool isa_available(Isa isa) {
  return isa <= std::min(processor_isa(), isa_limit());
}

Isa current_isa() {
  return choice().load(std::memory_order_relaxed);
}

IsaScope::IsaScope(Isa limit) : before_(current_isa()) {
  choice().store(std::min(before_, limit), std::memory_order_relaxed);
}
IsaScope::~IsaScope() {
  choice().store(before_, std::memory_order_relaxed);
}

}  // namespace tessera::kernels::cpu

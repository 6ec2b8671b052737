#include "tensor/cpu/processor.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tessera::kernels::cpu {
namespace {

Processor detect() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  char vendor[12];
  if (!__get_cpuid(0, &a, &b, &c, &d)) return Processor::other;
  std::memcpy(vendor, &b, 4);
  std::memcpy(vendor + 4, &d, 4);
  std::memcpy(vendor + 8, &c, 4);
  if (!__get_cpuid(1, &a, &b, &c, &d)) return Processor::other;
  unsigned family = a >> 8 & 15, model = a >> 4 & 15;
  if (family == 6 || family == 15) model |= (a >> 16 & 15) << 4;
  if (family == 15) family += a >> 20 & 255;
  return processor_of({vendor, sizeof vendor}, family, model);
#else
  return Processor::other;
#endif
}

}  // namespace

std::string_view name(Processor processor) {
  constexpr std::string_view names[] = {"other", "zen3", "zen4", "zen5", "sapphire_rapids"};
  return names[static_cast<int>(processor)];
}

Processor processor_of(std::string_view vendor, unsigned family, unsigned model) {
  if (vendor == "AuthenticAMD" && family == 0x19) {
    const bool is_zen4 = (model >= 0x10 && model <= 0x1f) || (model >= 0x60 && model <= 0xaf);
    return is_zen4 ? Processor::zen4 : Processor::zen3;
  }
  if (vendor == "AuthenticAMD" && family == 0x1a) {
    const bool is_zen5 = model <= 0x4f || (model >= 0x60 && model <= 0x7f);
    return is_zen5 ? Processor::zen5 : Processor::other;
  }
  // Emerald Rapids has the cores of Sapphire Rapids.
  if (vendor == "GenuineIntel" && family == 6 && (model == 0x8f || model == 0xcf))
    return Processor::sapphire_rapids;
  return Processor::other;
}

Processor this_processor() {
  static const Processor processor = detect();
  return processor;
}

}  // namespace tessera::kernels::cpu

#pragma once  // internal

#include <cstdint>
#include <string_view>

namespace tessera::kernels::cpu {

/// Designs on which products were measured (tensor/cpu/gemm/product_choice.cpp); `other`: any other one.
enum class Processor : uint8_t { other, zen3, zen4, zen5, sapphire_rapids };
inline constexpr Processor all_processors[] = {Processor::other, Processor::zen3, Processor::zen4,
                                               Processor::zen5, Processor::sapphire_rapids};

/// As in the source: "zen5", "sapphire_rapids".
std::string_view name(Processor processor);

/// The design of a vendor's ("AuthenticAMD") family and model, as CPUID gives them with their extensions.
/// AMD, Processor Programming References of families 19h and 1Ah; Intel, Software Developer's Manual, volume
/// 4, table 2-1.
Processor processor_of(std::string_view vendor, unsigned family, unsigned model);
/// The design of this processor.
Processor this_processor();

}  // namespace tessera::kernels::cpu

#pragma once

#include <string_view>

/// Which copy of the kernels in tensor/cpu/isa runs. Each source there is compiled once per instruction set,
/// inside a namespace of that set's name (`tessera::kernels::cpu::avx2`), and the best one that this
/// processor has is chosen here. All copies give the same bits; they differ in speed alone.
///
///     // tensor/cpu/softmax.h, inside namespace tessera::kernels::cpu
///     TESSERA_DECLARE_PER_ISA(void softmax_rows(const float* x, float* y, int64_t rows, int64_t columns);)
///     // tensor/cpu/softmax.cpp
///     TESSERA_PER_ISA(softmax_rows)(x, y, rows, columns);
namespace tessera::kernels::cpu {

/// Instruction sets with kernels of their own, in rising order.
enum class Isa { baseline, avx2, avx512 };

/// "baseline", "avx2" or "avx512".
std::string_view name(Isa isa);

/// Whether kernels for `isa` were built in and this processor can run them.
bool isa_available(Isa isa);

/// The set in use: the best available one that is not above the limit.
Isa current_isa();

/// Caps current_isa() from now on, in every thread; tests use it to compare the copies. Before the first call
/// the cap is the environment variable TESSERA_ISA_MAX (baseline, avx2, avx512), or none. Throws ValueError
/// on an unknown value of that variable at first use.
void set_isa_limit(Isa limit);

/// The variant of a function for current_isa().
template <class Function>
Function* choose_for_isa(Function* baseline, Function* avx2, Function* avx512) {
  const Isa isa = current_isa();
  return isa == Isa::avx512 ? avx512 : isa == Isa::avx2 ? avx2 : baseline;
}

}  // namespace tessera::kernels::cpu

/// Declares the same functions in the namespace of each instruction set, built here or not.
#define TESSERA_DECLARE_PER_ISA(...) \
  namespace baseline {               \
  __VA_ARGS__                        \
  }                                  \
  namespace avx2 {                   \
  __VA_ARGS__                        \
  }                                  \
  namespace avx512 {                 \
  __VA_ARGS__                        \
  }

/// The variant of `function` that runs here. Used inside namespace tessera::kernels::cpu.
#if defined(TESSERA_ISA_AVX512) && defined(TESSERA_ISA_AVX2)
#define TESSERA_PER_ISA(function) \
  ::tessera::kernels::cpu::choose_for_isa(&baseline::function, &avx2::function, &avx512::function)
#else
#define TESSERA_PER_ISA(function) (&baseline::function)
#endif

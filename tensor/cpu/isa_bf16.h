#pragma once  // internal

#include "tensor/cpu/isa.h"

/// The kernels of tensor/cpu/isa/bf16, which have one copy more than the others: for AVX512-BF16 and its
/// instruction that rounds f32 to bf16. The results are those of the other copies, because kernels run with
/// denormals flushed.

/// Declares the same functions in the namespaces of the instruction sets that have a copy of these kernels.
#define TESSERA_DECLARE_PER_ISA_BF16(...) \
  TESSERA_DECLARE_PER_ISA(__VA_ARGS__)    \
  namespace avx512_bf16 {                 \
  __VA_ARGS__                             \
  }

/// The copy of `function` for current_isa(). Used inside namespace tessera::kernels::cpu.
#if defined(TESSERA_ISA_AVX512_BF16)
#define TESSERA_PER_ISA_BF16(function) \
  (current_isa() >= Isa::avx512_bf16 ? &avx512_bf16::function : TESSERA_PER_ISA(function))
#else
#define TESSERA_PER_ISA_BF16(function) TESSERA_PER_ISA(function)
#endif

#pragma once  // internal

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

/// The choice of the instruction set: which copy of the kernels in tensor/cpu/isa runs, and what the matrix
/// products may use. Each source there is compiled once per set of vector instructions, in a namespace of
/// that set's name (`tessera::kernels::cpu::avx2`); the best set of this processor is chosen here. All copies
/// of elementwise kernels and reductions give the same bits; matrix products round differently on each, as
/// the processor's multiply-add does.
///
///     // tensor/cpu/loops/convert.h, inside namespace tessera::kernels::cpu
///     TESSERA_DECLARE_PER_ISA(void widen_bf16(const bfloat16* from, int64_t n, float* to);)
///     // and its use
///     TESSERA_PER_ISA(widen_bf16)(x, n, row);
namespace tessera::kernels::cpu {

/// Instruction sets in rising order; each includes those before it. Kernels in tensor/cpu/isa are compiled
/// for the first three, and isa/bf16 for the fourth; the last two add products of bf16 (vectors, tiles).
enum class Isa : uint8_t { baseline, avx2, avx512, avx512_bf16, amx };
inline constexpr std::array all_isas{Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx};

/// "baseline", "avx2", "avx512", "avx512_bf16" or "amx".
std::string_view name(Isa isa);

/// The features that the instruction sets need of a processor and its operating system.
struct ProcessorFeatures {
  bool avx2 = false, fma = false, f16c = false;
  bool avx512f = false, avx512bw = false, avx512dq = false, avx512vl = false;
  bool avx512_bf16 = false;
  bool amx_tile = false, amx_bf16 = false;
  bool tile_state = false;  ///< the operating system saves the registers of tiles
};
/// The features of this processor.
ProcessorFeatures processor_features();
/// The highest set whose features, and those of all sets before it, are present.
Isa best_isa(const ProcessorFeatures& features);

/// The limit that a value of TESSERA_ISA_MAX sets: the set of that name; `amx`, which is no limit, for an
/// empty value. Throws ConfigError naming the allowed values.
Isa parse_isa_limit(std::string_view value);

/// The best set that this processor has and kernels were built for, whatever the limit.
Isa processor_isa();
/// The limit of the environment: TESSERA_ISA_MAX at the first call of a function here that needs it. It then
/// holds for the process, oneDNN included (tensor/cpu/gemm/onednn/gemm_onednn.h). Throws ConfigError.
Isa isa_limit();

/// Whether kernels for `isa` were built in, this processor can run them, and the environment's limit allows
/// them.
bool isa_available(Isa isa);

/// The set in use: the best available one, or a lower one under an `IsaScope`.
Isa current_isa();

/// Lowers current_isa() in every thread while it lives; tests use it to compare the copies. It cannot raise
/// the set above the environment's limit, and it does not change oneDNN's set. Scopes nest.
class IsaScope {
 public:
  explicit IsaScope(Isa limit);
  ~IsaScope();
  IsaScope(const IsaScope&) = delete;
  IsaScope& operator=(const IsaScope&) = delete;

 private:
  Isa before_;
};

/// The copy of a function for current_isa().
template <class Function>
Function* choose_for_isa(Function* baseline, Function* avx2, Function* avx512) {
  const Isa isa = current_isa();
  return isa >= Isa::avx512 ? avx512 : isa == Isa::avx2 ? avx2 : baseline;
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

/// The copy of `function` for current_isa(). Used inside namespace tessera::kernels::cpu.
#if defined(TESSERA_ISA_AVX512) && defined(TESSERA_ISA_AVX2)
#define TESSERA_PER_ISA(function) \
  ::tessera::kernels::cpu::choose_for_isa(&baseline::function, &avx2::function, &avx512::function)
#else
#define TESSERA_PER_ISA(function) (&baseline::function)
#endif

#include "tensor/cpu/gemm_onednn.h"

#include "tensor/cpu/scratch.h"
#include "tensor/cpu/transpose.h"

#if defined(TESSERA_WITH_ONEDNN)

#include <oneapi/dnnl/dnnl.hpp>

#include "tensor/cpu/onednn_threads.h"

namespace tessera::kernels::cpu {

bool onednn_built() {
  return true;
}

namespace {

bool allows(dnnl::cpu_isa isa) {
  const auto needed = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

}  // namespace

bool onednn_multiplies_bf16() {
  static const bool multiplies = allows(dnnl::cpu_isa::avx512_core_bf16);
  return multiplies;
}

bool onednn_has_tiles() {
  static const bool has = allows(dnnl::cpu_isa::avx512_core_amx);
  return has;
}

namespace {

/// As in y = x W^T: a second operand that is transposed slows sgemm down, most of all in small products such
/// as a head's q k^T. A copy that stays in the second-level cache pays from a few rows on.
bool copy_pays(const Gemm<float>& gemm) {
  return gemm.b_transposed && gemm.m >= 16 && gemm.k * gemm.n <= 1 << 17;
}

}  // namespace

void gemm_onednn_f32(const Gemm<float>& gemm) {
  if (copy_pays(gemm)) {
    const Scratch<float> turned(gemm.k * gemm.n);
    TESSERA_PER_ISA(transpose_f32)(gemm.b, gemm.ldb, gemm.n, gemm.k, turned.get(), gemm.n);
    Gemm<float> product = gemm;
    product.b = turned.get();
    product.ldb = gemm.n;
    product.b_transposed = false;
    return gemm_onednn_f32(product);
  }
  const SingleThreadScope scope;
  const dnnl::status status =
      dnnl::sgemm(gemm.a_transposed ? 'T' : 'N', gemm.b_transposed ? 'T' : 'N', gemm.m, gemm.n, gemm.k, 1.0f,
                  gemm.a, gemm.lda, gemm.b, gemm.ldb, gemm.accumulate ? 1.0f : 0.0f, gemm.c, gemm.ldc);
  require<Error>(status == dnnl::status::success, "matmul: oneDNN's sgemm failed with status ",
                 static_cast<int>(status), " on (", gemm.m, ", ", gemm.k, ") by (", gemm.k, ", ", gemm.n,
                 ")");
}

}  // namespace tessera::kernels::cpu

#else

namespace tessera::kernels::cpu {

bool onednn_built() {
  return false;
}
bool onednn_multiplies_bf16() {
  return false;
}
bool onednn_has_tiles() {
  return false;
}
void gemm_onednn_f32(const Gemm<float>&) {
  throw NotBuiltError("matmul: this build has no oneDNN");
}

}  // namespace tessera::kernels::cpu

#endif

#include "tensor/cpu/gemm/onednn/gemm_onednn.h"

#include <algorithm>

#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/transpose.h"

#if defined(TESSERA_WITH_ONEDNN)

#include <oneapi/dnnl/dnnl.hpp>

#include "tensor/cpu/gemm/onednn/onednn_threads.h"

namespace tessera::kernels::cpu {

bool onednn_built() {
  return true;
}

namespace {

dnnl::cpu_isa onednn_name(Isa isa) {
  constexpr dnnl::cpu_isa names[] = {dnnl::cpu_isa::sse41, dnnl::cpu_isa::avx2, dnnl::cpu_isa::avx512_core,
                                     dnnl::cpu_isa::avx512_core_bf16, dnnl::cpu_isa::avx512_core_amx};
  return names[static_cast<int>(isa)];
}

/// The highest of our instruction sets that is within `set`; oneDNN's sets are bit masks.
Isa highest_within(dnnl::cpu_isa set) {
  Isa highest = Isa::baseline;
  for (const Isa isa : all_isas) {
    const auto needed = static_cast<unsigned>(onednn_name(isa));
    if ((static_cast<unsigned>(set) & needed) == needed) highest = isa;
  }
  return highest;
}

}  // namespace

Isa onednn_isa() {
  static const Isa isa = [] {
    // oneDNN may ignore the limit; its effective set shows that.
    if (isa_limit() < Isa::amx) dnnl::set_max_cpu_isa(onednn_name(isa_limit()));
    return highest_within(dnnl::get_effective_cpu_isa());
  }();
  return isa;
}

bool onednn_serves() {
  return onednn_isa() <= isa_limit();
}

namespace {

/// A transposed second operand, as in y = x W^T, slows sgemm down, most of all in small products such as a
/// head's q k^T. From a few rows on, a copy that stays in the second-level cache is faster.
bool copy_is_faster(const Gemm<float>& gemm) {
  return gemm.b_transposed && gemm.m >= 16 && gemm.k * gemm.n <= 1 << 17;
}

}  // namespace

void gemm_onednn_f32(const Gemm<float>& gemm) {
  if (copy_is_faster(gemm)) {
    const Scratch<float> transposed(gemm.k * gemm.n);
    TESSERA_PER_ISA(transpose_f32)(gemm.b, gemm.ldb, gemm.n, gemm.k, transposed.get(), gemm.n);
    Gemm<float> product = gemm;
    product.b = transposed.get();
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
Isa onednn_isa() {
  return Isa::baseline;
}
bool onednn_serves() {
  return false;
}
void gemm_onednn_f32(const Gemm<float>&) {
  throw NotBuiltError("matmul: this build has no oneDNN");
}

}  // namespace tessera::kernels::cpu

#endif

#include "tensor/cpu/gemm/gemm_onednn.h"

#include <algorithm>

#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/transpose.h"

namespace tessera::kernels::cpu {

F32Product choose_f32_product(MatmulBackend backend, Isa isa, bool onednn, F32Class product) {
  if (backend == MatmulBackend::eigen) return F32Product::eigen;
  if (backend == MatmulBackend::packed) return F32Product::packed;
  // Few rows do not pay for packing the second operand.
  if (!onednn) return product.rows < 16 ? F32Product::eigen : F32Product::packed;
  if (backend == MatmulBackend::onednn || product.rows < 128) return F32Product::onednn;
  // The faster of both: the first operand read in place, then stored transposed.
  constexpr F32Product packed = F32Product::packed, library = F32Product::onednn;
  constexpr F32Product faster[][2] = {{library, library},  // baseline
                                      {packed, library},   // avx2
                                      {packed, library}};  // avx512 and above
  return faster[static_cast<int>(std::min(isa, Isa::avx512))][product.a_transposed];
}

F32Product f32_product(F32Class product) {
  return choose_f32_product(chosen_backend.load(std::memory_order_relaxed), current_isa(), onednn_serves(),
                            product);
}

Bf16Product choose_bf16_product(MatmulBackend backend, Isa isa, Isa onednn) {
  if (backend == MatmulBackend::eigen) return Bf16Product::through_f32;
  const Isa least = backend == MatmulBackend::onednn ? Isa::avx512_bf16 : Isa::amx;
  if (backend != MatmulBackend::packed && std::min(isa, onednn) >= least) return Bf16Product::onednn;
  return isa >= Isa::avx512_bf16 ? Bf16Product::pairs : Bf16Product::through_f32;
}

Bf16Product bf16_product() {
  return choose_bf16_product(chosen_backend.load(std::memory_order_relaxed), current_isa(),
                             onednn_serves() ? onednn_isa() : Isa::baseline);
}

}  // namespace tessera::kernels::cpu

#if defined(TESSERA_WITH_ONEDNN)

#include <oneapi/dnnl/dnnl.hpp>

#include "tensor/cpu/gemm/onednn_threads.h"

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

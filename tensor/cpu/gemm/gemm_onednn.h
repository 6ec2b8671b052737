#pragma once  // internal

#include <atomic>

#include "tensor/arguments/matmul.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/isa.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// The backend of this process, set by `set_matmul_backend` (tensor/ops/matmul.h).
inline std::atomic<MatmulBackend> chosen_backend{MatmulBackend::automatic};

/// Whether this build has oneDNN.
bool onednn_built();

/// The highest instruction set that oneDNN uses: the processor's, lowered to isa_limit() by the first call of
/// this function, before any primitive is made. `baseline` is SSE4.1, oneDNN's lowest.
Isa onednn_isa();

/// Whether oneDNN is built in and keeps to isa_limit(). It does not where the program called oneDNN before
/// Tessera, which is too late to lower the limit; Eigen is used then.
bool onednn_serves();

/// How f32 is multiplied: by our kernels, by oneDNN or by Eigen.
enum class F32Product : uint8_t { packed, onednn, eigen };
/// What the choice depends on: the rows of c, and whether the first operand is stored transposed, as in a
/// weight's gradient.
struct F32Class {
  int64_t rows;
  bool a_transposed;
};
/// The choice when products use `isa` and oneDNN serves or not. `automatic` goes by a table of measurements
/// (README.md in this folder).
F32Product choose_f32_product(MatmulBackend backend, Isa isa, bool onednn, F32Class product);
/// The choice for this process, with the current settings.
F32Product f32_product(F32Class product);

/// How bf16 is multiplied: by oneDNN, by our kernels on vectors, or by f32 products after conversion.
enum class Bf16Product : uint8_t { onednn, pairs, through_f32 };
/// The choice when products may use `isa` and oneDNN uses `onednn` (`baseline` without oneDNN). Only oneDNN
/// has kernels for tiles, at four times the rate of vectors; on vectors our own kernels are faster.
Bf16Product choose_bf16_product(MatmulBackend backend, Isa isa, Isa onednn);
/// The choice for this process, with the current settings.
Bf16Product bf16_product();

/// An f32 product in the calling thread.
void gemm_onednn_f32(const Gemm<float>& gemm);

/// As `matmul` of tensor/cpu/matmul.h, for bf16 operands and a bf16 or f32 `out`, none of extent 0. Threads
/// share the columns or rows of `out`.
void matmul_onednn_bf16(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                        bool accumulate);

}  // namespace tessera::kernels::cpu

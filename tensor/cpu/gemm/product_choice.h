#pragma once  // internal

#include <atomic>
#include <string>

#include "tensor/arguments/matmul.h"
#include "tensor/cpu/isa.h"
#include "tensor/cpu/processor.h"

/// Which kernels multiply. The choice is a table of measurements (README.md in this folder has the figures),
/// never a measurement at run time: a run has the same bits every time.
namespace tessera::kernels::cpu {

/// The backend of this process, set by `set_matmul_backend` (tensor/ops/matmul.h).
inline std::atomic<MatmulBackend> chosen_backend{MatmulBackend::automatic};

/// How f32 is multiplied: by our kernels, by oneDNN or by Eigen.
enum class F32Product : uint8_t { packed, onednn, eigen };
/// What the choice depends on: the rows of c, and whether the first operand is stored transposed, as in a
/// weight's gradient.
struct F32Class {
  int64_t rows;
  bool a_transposed;
};
/// The choice on `processor` when products use `isa` and oneDNN serves or not.
F32Product choose_f32_product(MatmulBackend backend, Processor processor, Isa isa, bool onednn,
                              F32Class product);
/// The choice for this process, with the current settings.
F32Product f32_product(F32Class product);

/// Whether our kernels compute the gradient of a linear layer of f(x) (tensor/cpu/layers/activation_linear.h)
/// with `rows` rows and a weight of `out` rows, both products at once: where that was measured to be faster,
/// and where both are ours anyway.
/// @{
bool choose_activation_gradient(MatmulBackend backend, Processor processor, Isa isa, bool onednn,
                                int64_t rows, int64_t out);
bool f32_activation_gradient_is_ours(int64_t rows, int64_t out);
/// @}

/// How bf16 is multiplied: by oneDNN, by our kernels on vectors or tiles, or by f32 products after
/// conversion.
enum class Bf16Product : uint8_t { onednn, pairs, through_f32 };
/// The choice when products may use `isa` and oneDNN uses `onednn` (`baseline` without oneDNN). Our own
/// kernels are the faster ones on vectors and on tiles, so oneDNN's run on request only.
Bf16Product choose_bf16_product(MatmulBackend backend, Isa isa, Isa onednn);
/// The choice for this process, with the current settings.
Bf16Product bf16_product();

/// The choice by the rows of c, "oneDNN avx512 below 32 rows, ours avx512".
std::string f32_choices(bool a_transposed);
/// "ours amx", "ours avx512_bf16", "oneDNN amx" or "through f32".
std::string bf16_choice();

/// All of these in a line, which checkpoints keep: "f32 ours avx512; weight gradients oneDNN
/// avx512; bf16 ours avx512_bf16". Where two runs differ in it, so do the roundings
/// of their products. Where `activation_linear_backward` is ours, both of its products are of the first
/// class.
std::string product_choices();

}  // namespace tessera::kernels::cpu

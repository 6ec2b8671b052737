#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"

/// The recursions of connectionist temporal classification over the states of one frame, in log-space and f64
/// (tensor/cpu/losses/ctc_loss.cpp). Their source is tensor/cpu/isa/ctc_rows.cpp.
namespace tessera::kernels::cpu {

struct CtcRows {
  /// out[s] = score[s] + log(e^stay[s] + e^step[s] + e^(skip[s] + mask[s])), minus infinity where all three
  /// are; `mask` is 0 or minus infinity.
  void (*advance)(const double* score, const double* stay, const double* step, const double* skip,
                  const double* mask, int64_t n, double* out) = nullptr;
  /// out[s] = scale e^(alpha[s] + beta[s] + loss).
  void (*posterior)(const double* alpha, const double* beta, double loss, double scale, int64_t n,
                    double* out) = nullptr;
};

// clang-format off
TESSERA_DECLARE_PER_ISA(
  CtcRows ctc_rows();
)
// clang-format on

}  // namespace tessera::kernels::cpu

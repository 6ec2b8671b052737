#pragma once

#include <array>
#include <cstdint>

#include "optim/plain_optimizer.h"

namespace tessera::optim {

/// The factor of Muon's learning rate for a matrix of `rows` and `columns`.
enum class MuonRate {
  original,           ///< sqrt(max(1, rows / columns)), as Jordan's
  match_rms_adamw,    ///< 0.2 sqrt(max(rows, columns)): rates and decay of AdamW fit (Liu et al. 2025)
  spectral_unclamped  ///< sqrt(rows / columns)
};

/// Options of Muon, with PyTorch's defaults.
struct MuonOptions {
  double lr = 1e-3;           ///< the first learning rate
  double weight_decay = 0.1;  ///< times lr, the fraction of the parameter subtracted in each step
  double momentum = 0.95;     ///< decay of the momentum buffer, a running mean
  bool nesterov = true;       ///< look ahead by one momentum
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750,
                                           2.0315};  ///< a, b, c of a X + b X X'X + c (X X')^2 X
  double eps = 1e-7;                                 ///< the least norm that the matrix is divided by
  int64_t ns_steps = 5;                              ///< Newton-Schulz iterations
  MuonRate adjust_lr_fn = MuonRate::original;        ///< the factor of the rate, by shape
};

/// Muon (Jordan et al. 2024): momentum, made nearly orthogonal by Newton-Schulz iterations, as PyTorch
/// defines it, with the iterations in the parameter's dtype (PyTorch: bf16). For the matrices of hidden
/// layers; other parameters need another optimizer. State: momentum_buffer. Its products give the same bits
/// for the same number of threads. Works on full parameters: a list of shards throws ConfigError, a parameter
/// that is not a matrix ValueError. Throws ConfigError for options out of range, and as `Optimizer` does.
class Muon : public PlainOptimizer<MuonOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit Muon(const ParameterList& parameters, const Options& options = {})
      : Muon({{parameters, options}}) {}
  Muon(const ParameterList& parameters, Number auto lr)
      : Muon(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit Muon(const std::vector<ParameterGroup<Options>>& groups);
  /// @}

 protected:
  std::vector<StateTensor> state_tensors(int) const override { return {{"momentum_buffer", 0}}; }
  void step_parameter(const PlainParameter& p, const Options& options) const override;
};

}  // namespace tessera::optim

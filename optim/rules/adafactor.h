#pragma once

#include <array>

#include "optim/plain_optimizer.h"

namespace tessera::optim {

/// Options of Adafactor, with PyTorch's defaults.
struct AdafactorOptions {
  double lr = 1e-2;           ///< the largest rate relative to the parameter's root mean square
  double beta2_decay = -0.8;  ///< in step t the second mean takes the share t^beta2_decay of g^2
  /// The least root of the second mean (0: the rounding error of the dtype, PyTorch's None), and the least
  /// root mean square of a parameter.
  std::array<double, 2> eps = {0.0, 1e-3};
  double d = 1.0;             ///< an update with a larger root mean square is scaled down to it
  double weight_decay = 0.0;  ///< times lr, the fraction of the parameter subtracted in each step
  bool maximize = false;      ///< climb instead of descending
};

/// Adafactor (Shazeer and Stern 2018), as PyTorch defines it: a matrix keeps the second mean as one value for
/// each row (state row_var) and column (col_var), any other parameter as its own shape (variance); of more
/// than two dimensions the last two count. Works on full parameters: a list of shards throws ConfigError.
/// Throws ConfigError for options out of range, and as `Optimizer` does.
class Adafactor : public PlainOptimizer<AdafactorOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit Adafactor(const ParameterList& parameters, const Options& options = {})
      : Adafactor({{parameters, options}}) {}
  Adafactor(const ParameterList& parameters, Number auto lr)
      : Adafactor(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit Adafactor(const std::vector<ParameterGroup<Options>>& groups);
  /// @}

 protected:
  std::vector<StateTensor> state_tensors(int group) const override;
  void step_parameter(const PlainParameter& p, const Options& options) const override;
};

}  // namespace tessera::optim

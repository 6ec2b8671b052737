#pragma once  // not in tessera.h

#include <cstdint>
#include <optional>

#include "autograd/variable.h"
#include "dist/train/metrics/metric.h"

namespace tessera::training {

/// Options of Perplexity.
struct PerplexityOptions {
  std::optional<int64_t> ignore_index = -100;  ///< a target that does not count
};

/// exp(sum(w nll) / sum(w)): the exponential of the mean negative log-likelihood of the target tokens, as
/// torchmetrics' Perplexity. A model that spreads its probability evenly over V tokens has perplexity V. NaN
/// without tokens.
class Perplexity : public Metric {
 public:
  using Options = PerplexityOptions;  ///< of the constructor
  /// Of all targets but `ignore_index`.
  explicit Perplexity(const Options& options = {});

  /// Adds logits (..., V), floating, and their targets (...) i64, i32, u8 or bool. Weights have the targets'
  /// shape or its leading extents: targets of weight 0 are not read. Throws ShapeError, DTypeError,
  /// DeviceError, ValueError; IndexError, with the position, for a target outside [0, V).
  void update(const Variable& logits, const Tensor& targets, const Tensor& weights = {});
  /// Adds a mean negative log-likelihood that is known already, such as nn::cross_entropy's loss, and the
  /// number of tokens that it is the mean of. With 0 tokens the loss is not read. Throws ShapeError unless
  /// the loss has one element, ValueError for a number that is negative or not finite.
  void update_mean(const Variable& loss, double tokens);

 private:
  Tensor value() const override;

  Options options_;
  MetricState& nll_ = add_state("nll", dist::Reduction::sum);
  MetricState& tokens_ = add_state("tokens", dist::Reduction::sum);
};

}  // namespace tessera::training

#pragma once

#include "nn/layer.h"
#include "nn/residual.h"

namespace tessera::nn {

struct DropoutOptions {
  double probability = 0.5;  ///< of an element becoming zero; the rest is scaled by 1 / (1 - probability)
};

/// In training, zeroes elements at random (Srivastava et al. 2014); in evaluation, does nothing. The mask is
/// a function of (seed, this module's full name, call, sample, element), so that it never depends on ranks or
/// micro-batches and a recomputation replays it. x (B, ...): the first dimension counts samples. Throws
/// ConfigError for a probability outside [0, 1).
struct Dropout : Layer<Dropout> {
  using Options = DropoutOptions;
  Options o;
  explicit Dropout(Options options);
  explicit Dropout(double probability) : Dropout(Options{probability}) {}
  std::string kind() const override { return "Dropout"; }
  std::string describe_options() const override { return text(o.probability); }
  Variable forward(const Variable& x);
  /// x + dropout(delta), left to be added by what takes it; the mask is that of `forward(delta)`.
  Residual forward(const Variable& x, const Variable& delta);
  /// The mask of this call, for a function that drops on the way; none in evaluation.
  DropoutMask mask() const;
};

}  // namespace tessera::nn

#pragma once

#include "nn/layer.h"
#include "nn/residual.h"

namespace tessera::nn {

struct DropoutOptions {
  double probability = 0.5;  ///< of an element becoming zero; the rest is scaled by 1 / (1 - probability)
  /// Where the input holds the samples, where that is not what is noted on it: `samples_along(1)` for
  /// (T, B, C).
  SampleLayout samples = {};
};

/// In training, zeroes elements at random (Srivastava et al. 2014); in evaluation, does nothing. The mask is
/// a function of (seed, this module's full name, call, sample, element), so that it never depends on ranks or
/// micro-batches and a recomputation replays it. x (B, ...), or (T, B, C) or (B T, C) where view functions
/// made it of that (autograd/sample_layout.h) or the options say so. Throws ConfigError for a probability
/// outside [0, 1), ValueError for an input that does not hold the batch's samples.
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

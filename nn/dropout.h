#pragma once

#include "nn/layer.h"
#include "nn/residual.h"

namespace tessera::nn {

/// Options of Dropout.
struct DropoutOptions {
  double probability = 0.5;  ///< that an element becomes zero; the others are scaled by 1 / (1 - probability)
  /// Which dimension of the input counts the samples, where its recorded layout does not apply:
  /// `samples_along(1)` for (T, B, C).
  SampleLayout samples = {};
};

/// In training, zeroes elements at random (Srivastava et al. 2014); in evaluation, does nothing. The mask is
/// a function of (seed, this module's full name, call, sample, element), so that it does not depend on ranks
/// or micro-batches and a recomputation draws it again. x (B, ...), or (T, B, C) or (B T, C) where view
/// functions made it from that (autograd/sample_layout.h) or the options declare it. Throws
/// ValueError for an input that does not hold the batch's samples.
struct Dropout : Layer<Dropout> {
  using Options = DropoutOptions;  ///< the type that `add` and `push` take in braces
  Options o;                       ///< as given to the constructor
  /// Throws ConfigError for a probability outside [0, 1).
  /// @{
  explicit Dropout(Options options);
  explicit Dropout(double probability) : Dropout(Options{probability}) {}
  /// @}
  std::string kind() const override { return "Dropout"; }
  std::string describe_options() const override { return text(o.probability); }
  /// x with its elements dropped, of x's shape; in evaluation, or with probability 0, x itself.
  Variable forward(const Variable& x);
  /// x + dropout(delta), not yet added: the next operation adds it. The mask is that of `forward(delta)`.
  Residual forward(const Variable& x, const Variable& delta);
  /// The mask of this call, for a function that applies it in its own pass; none in evaluation.
  DropoutMask mask() const;
};

}  // namespace tessera::nn

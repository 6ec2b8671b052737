#pragma once

#include "autograd/functions/layers/dropout.h"
#include "nn/layer.h"

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
/// functions made it from that (autograd/views/sample_layout.h) or the options declare it. Throws
/// ValueError for an input that does not hold the batch's samples.
struct Dropout : Layer<Dropout, DropoutOptions> {
  /// Throws ConfigError for a probability outside [0, 1).
  /// @{
  explicit Dropout(Options options);
  explicit Dropout(double probability) : Dropout(Options{probability}) {}
  /// @}
  std::string describe_options() const override { return text(o.probability); }
  /// x with its elements dropped, of x's shape; in evaluation, or with probability 0, x itself.
  Variable forward(const Variable& x) const;
  /// The mask of this call, for a function that applies it in its own pass; none in evaluation.
  DropoutMask mask() const;
};

/// A layer's result before its last step, a dropout, with the mask of that dropout: for a function that
/// applies it in its own pass.
struct BeforeDropout {
  Variable value;         ///< the result, without the dropout
  DropoutMask mask = {};  ///< of the dropout; by default it drops nothing

  /// Calls `visit(value)`: by this, a module's hooks see the Variable (nn/layer.h).
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(value);
  }
};

/// dropout(result.value), the layer's result; without dropout the value itself.
Variable apply_dropout(const BeforeDropout& result);
/// x + dropout(branch.value), in one pass: the end of a residual branch.
Variable add_dropout(const Variable& x, const BeforeDropout& branch);

}  // namespace tessera::nn

#pragma once

#include "autograd/functions/layers/gated.h"
#include "nn/layers/linear.h"

/// Gated linear units (Dauphin et al. 2017; Shazeer 2020).
namespace tessera::nn {

/// Options of GLU.
struct GLUOptions {
  int64_t dim = -1;  ///< that two divides; counted from the end when negative
};

/// The first half of x along a dimension times the sigmoid of the second.
struct GLU : Layer<GLU, GLUOptions> {
  /// By default along the last dimension.
  explicit GLU(Options options = {}) : Layer(options) {}
  /// `glu(x, o.dim)`: half as wide as x.
  Variable forward(const Variable& x) const { return glu(x, o.dim); }
};

/// Options of GatedFeedForward.
struct GatedFeedForwardOptions {
  int64_t width = 0;       ///< C, features of the input and of the result
  int64_t hidden = 0;      ///< features between them; Llama has about 8/3 C
  bool bias = false;       ///< in the three linear layers
  Gate gate = Gate::silu;  ///< silu: SwiGLU; gelu: GEGLU
};

/// The feed-forward block of Llama: down_proj(f(gate_proj(x)) up_proj(x)), x (..., C).
struct GatedFeedForward : Layer<GatedFeedForward, GatedFeedForwardOptions> {
  /// C -> hidden.
  /// @{
  Linear& gate_proj = add<Linear>("gate_proj", {.in = o.width, .out = o.hidden, .bias = o.bias});
  Linear& up_proj = add<Linear>("up_proj", {.in = o.width, .out = o.hidden, .bias = o.bias});
  /// @}
  Linear& down_proj = add<Linear>("down_proj", {.in = o.hidden, .out = o.width, .bias = o.bias});  ///< back

  /// Declares the parameters on meta.
  explicit GatedFeedForward(Options options) : Layer(options) {}
  std::string describe_options() const override {
    return text(o.width, " -> ", o.hidden, ", ", to_string(o.gate));
  }
  /// x (..., C) to (..., C).
  Variable forward(const Variable& x) const { return down_proj(gated(o.gate, gate_proj(x), up_proj(x))); }
};

}  // namespace tessera::nn

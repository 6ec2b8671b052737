#pragma once

#include <cstdint>

namespace tessera {

/// A loss of one element x and its target t, with a parameter p.
enum class ElementwiseLossKind : uint8_t {
  l1_loss,               ///< |x - t|
  mse_loss,              ///< (x - t)^2
  huber_loss,            ///< (x - t)^2 / 2 up to a distance of p, from there p (|x - t| - p / 2)
  smooth_l1_loss,        ///< the same divided by p
  bce_with_logits,       ///< (1 - t) x + log(1 + e^-x)
  binary_cross_entropy,  ///< -t log(x) - (1 - t) log(1 - x), logarithms being at least -100
};

/// The name in errors and profiles: "huber_loss".
const char* name_of(ElementwiseLossKind kind);

/// A loss with its parameter.
struct ElementwiseLoss {
  ElementwiseLossKind kind;  ///< which loss
  double p = 0;              ///< its parameter, as the kind says
};

}  // namespace tessera

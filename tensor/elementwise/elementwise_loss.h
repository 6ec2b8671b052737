#pragma once  // internal

#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/hyperbolic.h"
#include "tensor/elementwise/log.h"

/// Losses of one element (tensor/arguments/elementwise_loss.h), and their derivatives at x. The struct
/// of a kind is `loss_` and its name.
TESSERA_ELEMENTWISE_BEGIN

struct loss_l1_loss {
  template <class T>
  static TESSERA_ELEMENT T value(T x, T t, T) {
    return abs(x - t);
  }
  template <class T>
  static TESSERA_ELEMENT T slope(T x, T t, T) {
    return sign(x - t);
  }
};

struct loss_mse_loss {
  template <class T>
  static TESSERA_ELEMENT T value(T x, T t, T) {
    return (x - t) * (x - t);
  }
  template <class T>
  static TESSERA_ELEMENT T slope(T x, T t, T) {
    return T(2) * (x - t);
  }
};

struct loss_huber_loss {
  template <class T>
  static TESSERA_ELEMENT T value(T x, T t, T p) {
    const T distance = abs(x - t);
    const T linear = p * (distance - T(0.5) * p);
    return distance <= p ? T(0.5) * distance * distance : linear;
  }
  template <class T>
  static TESSERA_ELEMENT T slope(T x, T t, T p) {
    return minimum(maximum(x - t, -p), p);
  }
};

struct loss_smooth_l1_loss {
  template <class T>
  static TESSERA_ELEMENT T value(T x, T t, T p) {
    const T distance = abs(x - t);
    const T linear = distance - T(0.5) * p;
    return distance < p ? T(0.5) * distance * distance / p : linear;
  }
  template <class T>
  static TESSERA_ELEMENT T slope(T x, T t, T p) {
    return minimum(maximum((x - t) / p, static_cast<T>(-1)), T(1));
  }
};

struct loss_bce_with_logits {
  template <class T>
  static TESSERA_ELEMENT T value(T x, T t, T) {
    return fma(T(1) - t, x, relu(-x)) + log1p(exp(-abs(x)));
  }
  template <class T>
  static TESSERA_ELEMENT T slope(T x, T t, T) {
    return sigmoid(x) - t;
  }
};

struct loss_binary_cross_entropy {
  template <class T>
  static TESSERA_ELEMENT T value(T x, T t, T) {
    const T least = static_cast<T>(-100);
    return -fma(t, maximum(log(x), least), (T(1) - t) * maximum(log1p(-x), least));
  }
  template <class T>
  static TESSERA_ELEMENT T slope(T x, T t, T) {
    return (x - t) / maximum(x * (T(1) - x), static_cast<T>(1e-12));
  }
};

TESSERA_ELEMENTWISE_END

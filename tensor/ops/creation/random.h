#pragma once

#include <cstdint>

#include "tensor/tensor.h"

/// Random numbers as a pure function of (key, index): `out` holds the elements first_index, first_index + 1,
/// ... of a larger, row-major tensor, and gets the random numbers of these elements. They come from Philox
/// 4x32-10 (tensor/random/philox.h), and are the same on every device and instruction set and for any number
/// of threads. Keys: see tensor/random/random_context.h.
namespace tessera::ops {

/// Uniform in [low, high), in 2^24 steps (2^53 for f64). Rounding to a narrow dtype may reach `high`. Throws
/// DTypeError for integers, ValueError for low > high or a negative index (as the functions below).
void fill_uniform(const Tensor& out, uint64_t key, int64_t first_index = 0, double low = 0, double high = 1);

/// Normal, by Box and Muller's method in f64, rounded once: an f32 tensor is the f64 tensor, rounded.
void fill_normal(const Tensor& out, uint64_t key, int64_t first_index = 0, double mean = 0,
                 double deviation = 1);

/// Normal within mean + deviation [low, high], by the inverse cumulative function. Throws ValueError unless
/// low < high and the range has a probability that f64 resolves.
void fill_truncated_normal(const Tensor& out, uint64_t key, int64_t first_index = 0, double mean = 0,
                           double deviation = 1, double low = -2, double high = 2);

/// 1 (true) with `probability`, else 0; any dtype.
void fill_bernoulli(const Tensor& out, uint64_t key, double probability, int64_t first_index = 0);

/// `count` indices into the last dimension of `weights` (floating, not negative), drawn with probabilities
/// proportional to them; weights (..., K) give i64 (..., count). Without replacement no index is drawn twice
/// in a row. Row r takes the random numbers r count, r count + 1, ... of the key. Throws ValueError, naming
/// the row, for a negative, infinite or NaN weight, or fewer than one (without replacement: `count`) positive
/// weights; ShapeError for a 0-dim tensor.
Tensor multinomial(const Tensor& weights, int64_t count, uint64_t key, bool replacement = true);

}  // namespace tessera::ops

#pragma once

#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

/// Random tensors without a key: each call takes the next key of this thread's generator, and its elements
/// are a function of key and index (tensor/ops/creation/random.h). So a program draws the same values in
/// every run, for any number of threads that its kernels use. Random numbers of a training step that must not
/// depend on the order of calls take keys by name instead (tensor/random/random_context.h).
namespace tessera {

/// Starts this thread's generator again from `seed` (before the first call: 1337). Threads have generators of
/// their own, as processes do. The steps of a data loader leave the generator as it is.
void manual_seed(uint64_t seed);

/// Uniform in [0, 1). Throws DTypeError for integers.
Tensor rand(const Shape& shape, DType dtype = f32, Device device = cpu());
/// Normal with mean 0 and variance 1. Throws DTypeError for integers.
Tensor randn(const Shape& shape, DType dtype = f32, Device device = cpu());
/// Integers in [low, high), or [0, high), each with equal probability to within (high - low) 2^-53. Throws
/// ValueError unless low < high and high - low is at most 2^53.
/// @{
Tensor randint(int64_t low, int64_t high, const Shape& shape, DType dtype = i64, Device device = cpu());
Tensor randint(int64_t high, const Shape& shape, DType dtype = i64, Device device = cpu());
/// @}
/// The integers 0 to n - 1 in random order. Throws ValueError for a negative n.
Tensor randperm(int64_t n, DType dtype = i64, Device device = cpu());
/// The same with the shape, the device and, unless given, the dtype of x.
/// @{
Tensor rand_like(const Tensor& x, std::optional<DType> dtype = {});
Tensor randn_like(const Tensor& x, std::optional<DType> dtype = {});
/// @}
/// 1 with the probability that `probabilities` has at that place, else 0; in its dtype. Throws ValueError for
/// one outside [0, 1].
Tensor bernoulli(const Tensor& probabilities);
/// Indices drawn from the last dimension of `weights`, as ops::multinomial; PyTorch's default is without
/// replacement.
Tensor multinomial(const Tensor& weights, int64_t count, bool replacement = false);

/// In place: normal, uniform in [low, high), and 1 with `probability`, else 0. Throw as the functions in
/// tensor/ops/creation/random.h.
/// @{
void normal_(const Tensor& x, double mean = 0, double deviation = 1);
void uniform_(const Tensor& x, double low = 0, double high = 1);
void bernoulli_(const Tensor& x, double probability = 0.5);
/// @}

}  // namespace tessera

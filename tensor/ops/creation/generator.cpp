#include "tensor/ops/creation/generator.h"

#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/indexing/sorting.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/reduction.h"
#include "tensor/random/random_context.h"

namespace tessera {
namespace {

/// Where numbers are drawn for `x`: all samples of a vmap at once where theirs are different.
Tensor to_draw(const char* name, const Tensor& x) {
  const Device device = common_device(name, {&x});
  batched::check_draw_for_each_sample(name, device);
  const batched::Scope* const scope = batched::current();
  if (!device.is_batched() || !scope || scope->randomness() != batched::Randomness::different) return x;
  if (batched::is_shared(x)) throw_no_batching_rule(name);
  x.bump_version();
  return batched::all_samples(x, device.samples);
}

}  // namespace

void manual_seed(uint64_t seed) {
  random_context().generator_seed = seed;
  random_context().generator_calls = 0;
}

Tensor rand(const Shape& shape, DType dtype, Device device) {
  const Tensor out = Tensor::empty(shape, dtype, batched::random_device(device));
  uniform_(out);
  return out;
}

Tensor randn(const Shape& shape, DType dtype, Device device) {
  const Tensor out = Tensor::empty(shape, dtype, batched::random_device(device));
  normal_(out);
  return out;
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, DType dtype, Device device) {
  int64_t range = 0;
  const bool overflow = __builtin_sub_overflow(high, low, &range);
  require<ValueError>(!overflow && range > 0 && range <= int64_t{1} << 53,
                      "randint: expected low < high at most 2^53 apart, got ", low, " and ", high);
  // floor(u range) is below `range`: the largest u is 1 - 2^-53, and u range rounds to less than `range`.
  const Tensor u = rand(shape, f64, device);
  ops::mul_(u, static_cast<double>(range));
  const Tensor values = ops::cast(u, i64);
  ops::add_(values, low);
  return ops::cast(values, dtype);
}

Tensor randint(int64_t high, const Shape& shape, DType dtype, Device device) {
  return randint(0, high, shape, dtype, device);
}

Tensor randperm(int64_t n, DType dtype, Device device) {
  require<ValueError>(n >= 0, "randperm: expected n of at least 0, got ", n);
  return ops::cast(ops::argsort(rand({n}, f64, device), 0), dtype);
}

Tensor rand_like(const Tensor& x, std::optional<DType> dtype) {
  const Device device = common_device("rand_like", {&x});
  return rand(x.shape(), dtype.value_or(x.dtype()), device);
}

Tensor randn_like(const Tensor& x, std::optional<DType> dtype) {
  const Device device = common_device("randn_like", {&x});
  return randn(x.shape(), dtype.value_or(x.dtype()), device);
}

Tensor bernoulli(const Tensor& probabilities) {
  const Device device = common_device("bernoulli", {&probabilities});
  require_floating("bernoulli", probabilities);
  const Tensor inside = ops::logical_and(ops::greater_equal(probabilities, Scalar(0)),
                                         ops::less_equal(probabilities, Scalar(1)));
  require<ValueError>(device.is_meta() || ops::all(inside).item_i64() != 0,
                      "bernoulli: expected probabilities in [0, 1], got others in ", describe(probabilities));
  // In f64, so that a probability of 1 is above every u.
  const Tensor u = rand(probabilities.shape(), f64, device);
  return ops::cast(ops::less(u, ops::cast(probabilities, f64)), probabilities.dtype());
}

Tensor multinomial(const Tensor& weights, int64_t count, bool replacement) {
  batched::check_draw_for_each_sample("multinomial", common_device("multinomial", {&weights}));
  return ops::multinomial(weights, count, next_generator_key(), replacement);
}

void normal_(const Tensor& x, double mean, double deviation) {
  ops::fill_normal(to_draw("normal_", x), next_generator_key(), 0, mean, deviation);
}

void uniform_(const Tensor& x, double low, double high) {
  ops::fill_uniform(to_draw("uniform_", x), next_generator_key(), 0, low, high);
}

void bernoulli_(const Tensor& x, double probability) {
  ops::fill_bernoulli(to_draw("bernoulli_", x), next_generator_key(), probability);
}

}  // namespace tessera

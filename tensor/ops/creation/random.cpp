#include "tensor/ops/creation/random.h"

#include <cmath>

#include "tensor/batched/rules.h"
#include "tensor/cpu/creation/multinomial.h"
#include "tensor/cpu/creation/random.h"
#include "tensor/cuda/creation/multinomial.h"
#include "tensor/cuda/creation/random.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

using kernels::cpu::Distribution;

constexpr Kernel<void(const Distribution&, uint64_t, int64_t, const Tensor&)> fill_kernel{
    "random numbers", &kernels::cpu::fill_random, TESSERA_CUDA_KERNEL(kernels::cuda::fill_random),
    batched::one_by_one<&kernels::cpu::fill_random>};

void fill(const char* name, const Distribution& distribution, uint64_t key, int64_t first_index,
          const Tensor& out) {
  const Device device = common_device(name, {&out});
  require<ValueError>(first_index >= 0, name, ": expected a first index of at least 0, got ", first_index);
  check_out(name, out, out.shape(), out.dtype());
  if (!device.is_meta() && out.numel() > 0) {
    const Tensor target = out.is_contiguous() ? out : Tensor::empty_like(out);
    fill_kernel(device, distribution, key, first_index, target);
    if (!out.is_contiguous()) return out.copy_from(target);
  }
  out.bump_version();
}

void check_probability(const char* name, double probability) {
  require<ValueError>(probability >= 0 && probability <= 1, name, ": expected a probability in [0, 1], got ",
                      probability);
}

constexpr Kernel<void(const Tensor&, const Tensor&, bool, const Tensor&)> multinomial_kernel{
    "multinomial", &kernels::cpu::multinomial, TESSERA_CUDA_KERNEL(kernels::cuda::multinomial)};

}  // namespace

void fill_uniform(const Tensor& out, uint64_t key, int64_t first_index, double low, double high) {
  common_device("fill_uniform", {&out});
  require_floating("fill_uniform", out);
  require<ValueError>(low <= high, "fill_uniform: expected low <= high, got ", low, " and ", high);
  fill("fill_uniform", {Distribution::Kind::uniform, low, high - low}, key, first_index, out);
}

void fill_normal(const Tensor& out, uint64_t key, int64_t first_index, double mean, double deviation) {
  common_device("fill_normal", {&out});
  require_floating("fill_normal", out);
  require<ValueError>(deviation >= 0, "fill_normal: expected a deviation of at least 0, got ", deviation);
  fill("fill_normal", {Distribution::Kind::normal, mean, deviation}, key, first_index, out);
}

void fill_truncated_normal(const Tensor& out, uint64_t key, int64_t first_index, double mean,
                           double deviation, double low, double high) {
  common_device("fill_truncated_normal", {&out});
  require_floating("fill_truncated_normal", out);
  require<ValueError>(deviation >= 0, "fill_truncated_normal: expected a deviation of at least 0, got ",
                      deviation);
  const double probability = 0.5 * (std::erf(high / std::sqrt(2.0)) - std::erf(low / std::sqrt(2.0)));
  require<ValueError>(low < high && probability > 1e-9, "fill_truncated_normal: the range [", low, ", ", high,
                      "] of deviations has a probability of at most 1e-9");
  fill("fill_truncated_normal", {Distribution::Kind::truncated_normal, mean, deviation, low, high}, key,
       first_index, out);
}

void fill_bernoulli(const Tensor& out, uint64_t key, double probability, int64_t first_index) {
  check_probability("fill_bernoulli", probability);
  fill("fill_bernoulli", {Distribution::Kind::bernoulli, probability}, key, first_index, out);
}

Tensor multinomial(const Tensor& weights, int64_t count, uint64_t key, bool replacement) {
  const Device device = common_device("multinomial", {&weights});
  require_floating("multinomial", weights);
  require<ShapeError>(weights.ndim() >= 1, "multinomial: expected at least one dimension, got ",
                      describe(weights));
  require<ValueError>(count >= 0, "multinomial: expected a count of at least 0, got ", count);
  Shape shape = weights.shape();
  shape[shape.ndim() - 1] = count;
  if (device.is_meta() || shape.numel() == 0) return Tensor::empty(shape, i64, device);
  const Tensor u = Tensor::empty(shape, f64, device), out = Tensor::empty(shape, i64, device);
  fill_uniform(u, key);
  multinomial_kernel(device, cast(weights, f64).clone(), u, replacement, out);
  return out;
}

}  // namespace tessera::ops

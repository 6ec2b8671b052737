#include "nn/parametrize/norms.h"

#include "autograd/functions/layers/weight_norm.h"
#include "autograd/grad_mode.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/reduction.h"
#include "tensor/random/random_context.h"

namespace tessera::nn {
namespace {

/// The lengths of `w` along all dimensions but `dim`, which stay with extents of 1; of all of it for `{}`.
Tensor lengths(const Tensor& w, std::optional<int64_t> dim) {
  if (!dim) return ops::sqrt(ops::sum(ops::square(w)));
  const int64_t kept = normalize_dim(*dim, w.ndim(), "weight_norm");
  Shape over;
  for (int64_t i = 0; i < w.ndim(); ++i)
    if (i != kept) over.push_back(i);
  return over.empty() ? ops::abs(w) : ops::sqrt(ops::sum(ops::square(w), over, true));
}

/// The vectors u and v of `w` after 15 iterations from random ones.
std::pair<Tensor, Tensor> singular_vectors(const Tensor& w, uint64_t key, const SpectralNormOptions& o) {
  const int64_t rows = w.size(*o.dim);
  const Tensor u = Tensor::empty({rows}, w.dtype(), w.device());
  const Tensor v = Tensor::empty({rows == 0 ? 0 : w.numel() / rows}, w.dtype(), w.device());
  if (w.is_meta() || w.numel() == 0) return {u, v};
  ops::fill_normal(u, random_key(key, "u", 0));
  ops::fill_normal(v, random_key(key, "v", 0));
  const GradMode no_history(false);
  tessera::spectral_norm(w, u, v, 15, o.eps, *o.dim);
  return {u, v};
}

SpectralNormOptions checked(const Tensor& w, SpectralNormOptions o) {
  require<ValueError>(o.power_iterations >= 1, "spectral_norm: expected power_iterations of 1 or more, got ",
                      o.power_iterations);
  require<ValueError>(o.eps > 0, "spectral_norm: expected an eps above 0, got ", o.eps);
  require<ShapeError>(w.ndim() >= 2, "spectral_norm: expected a parameter of 2 dimensions or more, got '",
                      o.name, "' ", describe(w));
  o.dim = normalize_dim(o.dim.value_or(0), w.ndim(), "spectral_norm");
  return o;
}

}  // namespace

WeightNorm::WeightNorm(const Module::Entry& parameter, std::optional<int64_t> kept)
    : dim(kept),
      g(parameter_from(parameter, "original0",
                       [kept](const Tensor& w, uint64_t) { return lengths(w, kept); })),
      v(parameter_from(parameter, "original1")) {}

std::string WeightNorm::describe_options() const {
  return dim ? text("dim ", *dim) : "whole";
}

Variable WeightNorm::compute() {
  return tessera::weight_norm(v, g, dim);
}

SpectralNorm::SpectralNorm(const Module::Entry& parameter, SpectralNormOptions options)
    : o(checked(parameter.variable.value(), std::move(options))),
      original(parameter_from(parameter, "original")),
      vectors(add<Vectors>("0")),
      u(declare_vector(parameter, "_u", &std::pair<Tensor, Tensor>::first)),
      v(declare_vector(parameter, "_v", &std::pair<Tensor, Tensor>::second)) {}

Variable& SpectralNorm::declare_vector(const Module::Entry& parameter, const char* name,
                                       Tensor std::pair<Tensor, Tensor>::*which) {
  return declared_from(
      parameter,
      [options = o, which](const Tensor& w, uint64_t key) {
        return singular_vectors(w, key, options).*which;
      },
      [&](const Shape& shape, init::Initializer initializer, DType dtype) -> Variable& {
        return vectors.buffer(name, shape, std::move(initializer), dtype);
      });
}

std::string SpectralNorm::describe_options() const {
  return text("dim ", *o.dim, o.power_iterations == 1 ? "" : text(", ", o.power_iterations, " iterations"));
}

Variable SpectralNorm::compute() {
  return tessera::spectral_norm(original, u.value(), v.value(), is_training() ? o.power_iterations : 0, o.eps,
                                *o.dim);
}

namespace detail {

void apply(Module& module, const WeightNormOptions& options) {
  register_parametrization<WeightNorm>(module, options.name, options.dim);
}

void apply(Module& module, SpectralNormOptions options) {
  if (!options.dim && module.kind().starts_with("ConvTranspose")) options.dim = 1;
  register_parametrization<SpectralNorm>(module, options.name, options);
}

}  // namespace detail
}  // namespace tessera::nn

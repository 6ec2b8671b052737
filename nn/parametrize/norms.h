#pragma once

#include <optional>
#include <string>
#include <utility>

#include "nn/parametrize/parametrization.h"

/// Weight norm and spectral norm of a layer's parameter, as torch.nn.utils.parametrizations has them:
///
///     nn::weight_norm(net.fc);
///     nn::spectral_norm(net.at("features.0"), {.power_iterations = 2});
///     nn::Linear& fc = nn::weight_norm(add<nn::Linear>("fc", {.in = 2, .out = 3}));
///     nn::remove_parametrizations(net.fc);
namespace tessera::nn {

/// Options of `weight_norm`.
struct WeightNormOptions {
  std::string name = "weight";     ///< of the parameter
  std::optional<int64_t> dim = 0;  ///< with a length for each of its indices; {}: one length for the whole
};

/// g v / |v|, as `tessera::weight_norm`: parameters `original0`, g, and `original1`, v.
struct WeightNorm : Parametrization {
  std::optional<int64_t> dim;  ///< as in the options
  Variable& g;                 ///< lengths: (1, ..., n, ..., 1), or a scalar
  Variable& v;                 ///< directions, of the parameter's shape

  /// Throws IndexError for a dimension that the parameter does not have.
  WeightNorm(const Module::Entry& parameter, std::optional<int64_t> dim);
  std::string describe_options() const override;
  Variable compute() override;
};

/// Options of `spectral_norm`.
struct SpectralNormOptions {
  std::string name = "weight";      ///< of the parameter
  int64_t power_iterations = 1;     ///< in each call in training; in evaluation there are none
  double eps = 1e-12;               ///< the least length by which u and v are divided
  std::optional<int64_t> dim = {};  ///< the matrix's rows; {}: 1 for transposed convolutions, 0 for others
};

/// The parameter divided by its largest singular value, as `tessera::spectral_norm`: the parameter `original`
/// and the buffers `0._u` and `0._v`, at first after 15 iterations.
struct SpectralNorm : Parametrization {
  /// Has the estimates of the singular vectors.
  struct Vectors : Module {
    using Module::buffer;
  };
  SpectralNormOptions o;  ///< with a dim
  Variable& original;     ///< of the parameter's shape
  Vectors& vectors;       ///< the child "0"
  Variable& u;            ///< (n) for n rows
  Variable& v;            ///< (elements of a row)

  /// Throws ValueError for power_iterations or eps below, ShapeError, IndexError for its dim.
  SpectralNorm(const Module::Entry& parameter, SpectralNormOptions options);
  std::string describe_options() const override;
  Variable compute() override;

 private:
  Variable& declare_vector(const Module::Entry& parameter, const char* name,
                           Tensor std::pair<Tensor, Tensor>::*which);
};

namespace detail {
void apply(Module& module, const WeightNormOptions& options);
void apply(Module& module, SpectralNormOptions options);
}  // namespace detail

/// Gives the module's parameter weight norm: its lengths and its directions are trained (Salimans and Kingma
/// 2016). Its values stay. Returns the module. Unlike in PyTorch, dim = -1 is the last dimension. Throws as
/// `register_parametrization`, IndexError for a dimension that the parameter does not have.
template <ModuleValue M>
M& weight_norm(M& module, const WeightNormOptions& options = {}) {
  detail::apply(module, options);
  return module;
}
/// Gives the module's parameter spectral norm: it is divided by an estimate of its largest singular value,
/// that of a matrix of dimension `dim` and all others, which power iterations improve in training (Miyato et
/// al. 2018). Returns the module. Throws as `register_parametrization`, ShapeError for a parameter of fewer
/// than 2 dimensions, IndexError for a dimension that it does not have, ValueError for fewer than 1 power
/// iteration or an eps that is not positive.
template <ModuleValue M>
M& spectral_norm(M& module, const SpectralNormOptions& options = {}) {
  detail::apply(module, options);
  return module;
}

}  // namespace tessera::nn

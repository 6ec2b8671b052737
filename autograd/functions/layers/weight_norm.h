#pragma once

#include <optional>

#include "autograd/variable.h"

/// Weights as functions of other parameters. A layer declares these parameters and computes its weight from
/// them in each call, so that materialize, state dicts and sharding treat them as all others:
///
///     struct NormedLinear : nn::Layer<NormedLinear, nn::LinearOptions> {
///       using Layer::Layer;
///       Variable& v = parameter("weight_v", {o.out, o.in}, o.weight_init);
///       Variable& g = parameter("weight_g", {o.out, 1}, init::ones());
///       Variable forward(const Variable& x) const { return linear(x, weight_norm(v, g)); }
///     };
namespace tessera {

/// g v / |v|, with the Euclidean norm over all dimensions but `dim`, or over all for `{}` (Salimans and
/// Kingma 2016). g has v's shape with extents of 1 but for `dim`. Throws ShapeError.
Variable weight_norm(const Variable& v, const Variable& g, std::optional<int64_t> dim = 0);

/// weight / s, where s = u^T W v estimates the largest singular value of the weight as a matrix W (out, all
/// other dimensions) (Miyato et al. 2018). u (out) and v are unit vectors, kept in buffers, constants for the
/// gradient. Each of `power_iterations`, one in training and none in evaluation, improves them in place: v =
/// W^T u / |W^T u|, u = W v / |W v|. A rerun of a checkpointed segment takes them as they then are. Throws
/// ShapeError.
Variable spectral_norm(const Variable& weight, const Tensor& u, const Tensor& v, int64_t power_iterations = 1,
                       double epsilon = 1e-12);

}  // namespace tessera

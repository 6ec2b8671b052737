#pragma once

#include <optional>

#include "autograd/variable.h"

/// Weights as functions of other parameters. `nn::weight_norm(layer)` and `nn::spectral_norm(layer)`
/// (nn/parametrize/norms.h) give a layer such a weight; a layer of one's own may call these itself:
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

/// weight / s, where s = u^T W v estimates the largest singular value of the weight as a matrix W (dimension
/// `dim`, all others) (Miyato et al. 2018). u and v are unit vectors, kept in buffers, constants for the
/// gradient; s has their dtype. Each of `power_iterations`, one in training and none in evaluation, improves
/// them in place: u = W v / |W v|, v = W^T u / |W^T u|, as torch.nn.utils.parametrizations does. A rerun of a
/// checkpointed segment takes them as they then are. Throws ShapeError, IndexError for `dim`.
Variable spectral_norm(const Variable& weight, const Tensor& u, const Tensor& v, int64_t power_iterations = 1,
                       double epsilon = 1e-12, int64_t dim = 0);

}  // namespace tessera

#pragma once

#include "tensor/tensor.h"

namespace tessera {

/// Whether x (N, C, spatial...) lies in memory as (N, spatial..., C), which is not its own order: PyTorch's
/// `channels_last`. Convolutions, batch norm, casts and unary and binary elementwise operations of one shape
/// keep this layout; pooling, group norm and activations with parameters give contiguous results.
bool is_channels_last(const Tensor& x);

/// x (N, C, spatial...) as a view (N, spatial..., C), which is contiguous for a channels-last x; and such a
/// view as (N, C, spatial...) again.
/// @{
Tensor channels_innermost(const Tensor& x);
Tensor channels_second(const Tensor& x);
/// @}

/// Uninitialised, of shape (N, C, spatial...): in channels-last layout, or contiguous.
Tensor empty_in_layout(bool channels_last, const Shape& shape, DType dtype, Device device);

/// The same values in channels-last layout, or contiguous: x itself where it has the layout.
Tensor in_layout(bool channels_last, const Tensor& x);

}  // namespace tessera

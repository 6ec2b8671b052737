#pragma once

#include <cstdint>
#include <string>

#include "autograd/variable.h"

/// Moving elements between channels and planes, and around planes. Nothing is saved but indices.
namespace tessera {

/// x (..., C r^2, H, W) to (..., C, r H, r W): element (i, j) of each r by r square is from channel r i + j
/// of r^2 (Shi et al. 2016). Throws ShapeError for channels that r^2 does not divide.
Variable pixel_shuffle(const Variable& x, int64_t upscale_factor);
/// The inverse: x (..., C, r H, r W) to (..., C r^2, H, W). Throws ShapeError for extents that r does not
/// divide.
Variable pixel_unshuffle(const Variable& x, int64_t downscale_factor);
/// x (N, C, ...) with its channels reordered from (groups, C / groups) to (C / groups, groups) (Zhang et al.
/// 2018). Throws ShapeError for groups that do not divide C.
Variable channel_shuffle(const Variable& x, int64_t groups);

/// The same values, laid out in memory as (N, spatial..., C): PyTorch's `channels_last`. Convolutions, batch
/// norm, casts, and sums, products and activations of operands of one layout keep it; others, pooling too,
/// give contiguous results. x itself where it has the layout. Throws
/// ShapeError for fewer than 3 dimensions.
Variable channels_last(const Variable& x);

/// What `pad`, and a convolution with padding, put around x.
enum class PaddingMode : uint8_t {
  constant,         ///< a value
  reflect,          ///< x mirrored at its border elements, which are not repeated
  replicate,        ///< the border elements
  circular,         ///< x again, from its other end
  zeros = constant  ///< the value 0, by the name that it has as an option of convolutions
};
/// "constant", "reflect", "replicate", "circular".
std::string to_string(PaddingMode mode);

/// torch.nn.functional.pad: `padding` lists the elements before and after the last dimension, then those of
/// the one before it, and so on. A negative number removes elements (constant mode only). Throws ShapeError
/// for an odd list or one of more dimensions than x has; ValueError for a reflection of as many elements as x
/// has, or a circular padding of more. Without a mode it adds zeros.
///
///     pad(x, {1, 2}, PaddingMode::reflect);            // one column on the left, two on the right
///     pad(x, {1, 1, 2, 2}, PaddingMode::constant, 3);  // and two rows above and below
Variable pad(const Variable& x, const Shape& padding, PaddingMode mode = PaddingMode::constant,
             double value = 0);

}  // namespace tessera

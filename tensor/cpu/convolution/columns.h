#pragma once  // internal

#include "tensor/arguments/convolution.h"
#include "tensor/tensor.h"

/// The windows of an image as columns of a matrix: row (c, tap), column (output position). A convolution is
/// the product of the weight, (C_out, rows), and this matrix.
namespace tessera::kernels::cpu {

/// Elements from one index to the next in x (N, C, spatial...).
struct ImageStrides {
  int64_t sample = 0, channel = 0;
  SpatialValues spatial{0, 0, 0};
};
ImageStrides image_strides(const Tensor& x);

/// A range of the output positions of all images, counted image by image, and a range of channels of x.
struct ColumnBlock {
  int64_t channel, channels;
  int64_t position, positions;
};

/// Writes the block's columns, row-major with rows `block.positions` long; positions in the padding are 0.
template <class T>
void gather_columns(const ConvolutionGeometry& g, const T* x, const ImageStrides& strides,
                    const ColumnBlock& block, T* columns);

/// Adds the block's columns to the elements of x that they come from: the transpose of `gather_columns`.
template <class T>
void scatter_columns(const ConvolutionGeometry& g, const T* columns, const ColumnBlock& block,
                     const ImageStrides& strides, T* x);

}  // namespace tessera::kernels::cpu

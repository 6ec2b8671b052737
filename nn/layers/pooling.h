#pragma once

#include "autograd/functions/images/pooling.h"
#include "nn/layer.h"

/// Pooling as modules; each is the function of its name, over the last `dims` dimensions of x (N, C, ...) or
/// (C, ...). No parameters. In options one entry of a list stands for all dimensions.
namespace tessera::nn {

/// Options of MaxPool.
struct MaxPoolOptions {
  Shape kernel_size;       ///< elements of a window
  Shape stride = {};       ///< between windows; empty: kernel_size
  Shape padding = 0;       ///< positions on each side, never the largest; at most half the kernel
  Shape dilation = 1;      ///< between the elements of a window
  bool ceil_mode = false;  ///< rounds the number of windows up
};

/// The largest element of each window.
template <int dims>
struct MaxPool : Layer<MaxPool<dims>, MaxPoolOptions> {
  /// Takes PyTorch's arguments, or the options by name.
  /// @{
  explicit MaxPool(MaxPoolOptions options) : Layer<MaxPool<dims>, MaxPoolOptions>(options) {}
  explicit MaxPool(const Shape& kernel_size, const Shape& stride = {}, const Shape& padding = 0,
                   const Shape& dilation = 1, bool ceil_mode = false)
      : MaxPool(MaxPoolOptions{kernel_size, stride, padding, dilation, ceil_mode}) {}
  /// @}
  std::string kind() const override { return text("MaxPool", dims, "d"); }
  std::string describe_options() const override { return text("kernel ", this->o.kernel_size); }
  /// The largest elements. Throws ShapeError naming the layer for an input of another rank.
  Variable forward(const Variable& x) const;
  /// The same with their indices, for MaxUnpool: PyTorch's `return_indices=True`.
  ValuesAndIndices<Variable> with_indices(const Variable& x) const;
};
/// By PyTorch's names.
/// @{
using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;
/// @}

/// Options of MaxUnpool: those of the pooling.
struct MaxUnpoolOptions {
  Shape kernel_size;  ///< elements of a window
  Shape stride = {};  ///< between windows; empty: kernel_size
  Shape padding = 0;  ///< positions on each side
};

/// Puts the results of a max pooling back at their indices, among zeros.
template <int dims>
struct MaxUnpool : Layer<MaxUnpool<dims>, MaxUnpoolOptions> {
  /// Takes PyTorch's arguments, or the options by name.
  /// @{
  explicit MaxUnpool(MaxUnpoolOptions options) : Layer<MaxUnpool<dims>, MaxUnpoolOptions>(options) {}
  explicit MaxUnpool(const Shape& kernel_size, const Shape& stride = {}, const Shape& padding = 0)
      : MaxUnpool(MaxUnpoolOptions{kernel_size, stride, padding}) {}
  /// @}
  std::string kind() const override { return text("MaxUnpool", dims, "d"); }
  std::string describe_options() const override { return text("kernel ", this->o.kernel_size); }
  /// x and indices of one shape; the planes have `output_size`, by default the least that the windows cover.
  Variable forward(const Variable& x, const Tensor& indices, const Shape& output_size = {}) const;
};
/// By PyTorch's names.
/// @{
using MaxUnpool1d = MaxUnpool<1>;
using MaxUnpool2d = MaxUnpool<2>;
using MaxUnpool3d = MaxUnpool<3>;
/// @}

/// Options of AvgPool.
struct AvgPoolOptions {
  Shape kernel_size;              ///< elements of a window
  Shape stride = {};              ///< between windows; empty: kernel_size
  Shape padding = 0;              ///< zeros on each side; at most half the kernel
  bool ceil_mode = false;         ///< rounds the number of windows up
  bool count_include_pad = true;  ///< whether an average counts the zeros of the padding
  int64_t divisor_override = 0;   ///< divides the sums instead, unless 0; not for dims = 1
};

/// The average of each window.
template <int dims>
struct AvgPool : Layer<AvgPool<dims>, AvgPoolOptions> {
  /// Takes PyTorch's arguments, or the options by name.
  /// @{
  explicit AvgPool(AvgPoolOptions options) : Layer<AvgPool<dims>, AvgPoolOptions>(options) {}
  explicit AvgPool(const Shape& kernel_size, const Shape& stride = {}, const Shape& padding = 0,
                   bool ceil_mode = false, bool count_include_pad = true, int64_t divisor_override = 0)
      : AvgPool(
            AvgPoolOptions{kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override}) {}
  /// @}
  std::string kind() const override { return text("AvgPool", dims, "d"); }
  std::string describe_options() const override { return text("kernel ", this->o.kernel_size); }
  /// The averages. Throws ShapeError naming the layer for an input of another rank.
  Variable forward(const Variable& x) const;
};
/// By PyTorch's names.
/// @{
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;
/// @}

/// Options of AdaptiveMaxPool and AdaptiveAvgPool.
struct AdaptivePoolOptions {
  Shape output_size;  ///< windows along each dimension; -1 keeps the extent
};

/// The largest elements of windows that divide each dimension into `output_size` of nearly one size.
template <int dims>
struct AdaptiveMaxPool : Layer<AdaptiveMaxPool<dims>, AdaptivePoolOptions> {
  /// The number of windows, by position or by name.
  /// @{
  explicit AdaptiveMaxPool(AdaptivePoolOptions options)
      : Layer<AdaptiveMaxPool<dims>, AdaptivePoolOptions>(options) {}
  explicit AdaptiveMaxPool(const Shape& output_size) : AdaptiveMaxPool(AdaptivePoolOptions{output_size}) {}
  /// @}
  std::string kind() const override { return text("AdaptiveMaxPool", dims, "d"); }
  std::string describe_options() const override { return text("output ", this->o.output_size); }
  /// The largest elements. Throws ShapeError naming the layer for an input of another rank.
  Variable forward(const Variable& x) const;
  /// The same with their indices.
  ValuesAndIndices<Variable> with_indices(const Variable& x) const;
};
/// By PyTorch's names.
/// @{
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;
/// @}

/// The averages of such windows. With an output size of 1: the average of each plane (global pooling).
template <int dims>
struct AdaptiveAvgPool : Layer<AdaptiveAvgPool<dims>, AdaptivePoolOptions> {
  /// The number of windows, by position or by name.
  /// @{
  explicit AdaptiveAvgPool(AdaptivePoolOptions options)
      : Layer<AdaptiveAvgPool<dims>, AdaptivePoolOptions>(options) {}
  explicit AdaptiveAvgPool(const Shape& output_size) : AdaptiveAvgPool(AdaptivePoolOptions{output_size}) {}
  /// @}
  std::string kind() const override { return text("AdaptiveAvgPool", dims, "d"); }
  std::string describe_options() const override { return text("output ", this->o.output_size); }
  /// The averages. Throws ShapeError naming the layer for an input of another rank.
  Variable forward(const Variable& x) const;
};
/// By PyTorch's names.
/// @{
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;
/// @}

/// Options of LPPool.
struct LPPoolOptions {
  double norm_type = 2;    ///< the exponent p
  Shape kernel_size;       ///< elements of a window
  Shape stride = {};       ///< between windows; empty: kernel_size
  bool ceil_mode = false;  ///< rounds the number of windows up
};

/// (sum of x^p)^(1/p) of each window.
template <int dims>
struct LPPool : Layer<LPPool<dims>, LPPoolOptions> {
  /// Takes PyTorch's arguments, or the options by name.
  /// @{
  explicit LPPool(LPPoolOptions options) : Layer<LPPool<dims>, LPPoolOptions>(options) {}
  explicit LPPool(double norm_type, const Shape& kernel_size, const Shape& stride = {},
                  bool ceil_mode = false)
      : LPPool(LPPoolOptions{norm_type, kernel_size, stride, ceil_mode}) {}
  /// @}
  std::string kind() const override { return text("LPPool", dims, "d"); }
  std::string describe_options() const override {
    return text("p ", this->o.norm_type, ", kernel ", this->o.kernel_size);
  }
  /// The roots. Throws ShapeError naming the layer for an input of another rank.
  Variable forward(const Variable& x) const;
};
/// By PyTorch's names.
/// @{
using LPPool1d = LPPool<1>;
using LPPool2d = LPPool<2>;
using LPPool3d = LPPool<3>;
/// @}

}  // namespace tessera::nn

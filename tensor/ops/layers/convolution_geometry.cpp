#include <algorithm>
#include <string>

#include "tensor/error.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/layers/convolution.h"

namespace tessera {

ConvPadding::ConvPadding(std::string_view name) : same_(name == "same") {
  require<ValueError>(same_ || name == "valid", "padding: expected \"same\", \"valid\" or amounts, got \"",
                      name, "\"");
}

std::string to_string(const ConvPadding& padding) {
  return padding.is_same() ? "same" : to_string(padding.amounts());
}

namespace ops {
namespace {

/// `shape` has an entry for each of `ndim` dimensions, or one for all, each at least `least`.
SpatialValues amounts(const char* name, const char* what, const Shape& shape, int ndim, int64_t least) {
  require<ShapeError>(shape.ndim() == 1 || shape.ndim() == ndim, name, ": expected 1 or ", ndim,
                      " entries of ", what, ", got ", shape);
  SpatialValues values;
  values.fill(least);
  for (int i = 0; i < ndim; ++i) {
    const int64_t value = shape[shape.ndim() == 1 ? 0 : i];
    require<ValueError>(value >= least, name, ": expected a ", what, " of at least ", least, ", got ", shape);
    values[3 - ndim + i] = value;
  }
  return values;
}

/// Extents from dimension `first` on.
SpatialValues extents(const Shape& shape, int first, int ndim) {
  SpatialValues values{1, 1, 1};
  for (int i = 0; i < ndim; ++i) values[3 - ndim + i] = shape[first + i];
  return values;
}

Shape as_shape(const SpatialValues& values, int ndim) {
  return Shape(std::span<const int64_t>(values.data() + 3 - ndim, ndim));
}

/// dilation (kernel - 1) + 1: the extent of x that a window spans.
int64_t span_of(const char* name, const ConvolutionGeometry& g, int i) {
  return add_sizes(multiply_sizes(g.dilation[i], g.kernel[i] - 1, name), 1, name);
}

void check_operands(const char* name, int ndim, const Tensor& x, const Tensor& weight, int64_t groups) {
  common_device(name, {&x, &weight});
  require_floating(name, x);
  require_same_dtype(name, {&x, &weight});
  require<ShapeError>(x.ndim() == ndim + 2, name, ": expected x of ", ndim + 2, " dimensions (N, C, ", ndim,
                      " spatial), or ", ndim + 1, " for one image, got ", describe(x));
  require<ShapeError>(weight.ndim() == ndim + 2, name, ": expected a weight of ", ndim + 2,
                      " dimensions, got ", describe(weight));
  require<ValueError>(groups >= 1, name, ": expected at least 1 group, got ", groups);
  for (int i = 2; i < weight.ndim(); ++i)
    require<ShapeError>(weight.size(i) >= 1, name,
                        ": expected a kernel without an extent of 0, got the weight ", describe(weight));
}

void check_groups(const char* name, const char* which, int64_t channels, int64_t groups) {
  require<ShapeError>(channels % groups == 0, name, ": ", groups, " groups do not divide the ", channels, " ",
                      which, " channels");
}

void check_bias(const char* name, const Tensor& bias, const Tensor& weight, int64_t channels) {
  if (!bias.defined()) return;
  common_device(name, {&weight, &bias});
  require_same_dtype(name, {&weight, &bias});
  require<ShapeError>(bias.ndim() == 1 && bias.size(0) == channels, name, ": expected a bias of the ",
                      channels, " output channels, got ", describe(bias));
}

/// Sets the extents of y: as many windows as the padded x has. `after`: zeros behind x.
void set_positions(const char* name, ConvolutionGeometry& g, const SpatialValues& after) {
  SpatialValues padded = g.in;
  for (int i = 3 - g.ndim; i < 3; ++i) {
    const int64_t span = span_of(name, g, i);
    padded[i] = add_sizes(g.in[i], add_sizes(g.padding[i], after[i], name), name);
    g.out[i] = padded[i] < span ? 0 : (padded[i] - span) / g.stride[i] + 1;
  }
  require<ShapeError>(g.out[0] > 0 && g.out[1] > 0 && g.out[2] > 0, name, ": the kernel ",
                      as_shape(g.kernel, g.ndim), " with dilation ", as_shape(g.dilation, g.ndim),
                      " is larger than the padded input ", as_shape(padded, g.ndim));
}

/// Sets the padding before x and returns that behind it.
SpatialValues set_padding(const char* name, ConvolutionGeometry& g, const ConvPadding& padding) {
  if (!padding.is_same()) return g.padding = amounts(name, "padding", padding.amounts(), g.ndim, 0);
  require<ValueError>(g.stride == SpatialValues{1, 1, 1}, name,
                      ": padding \"same\" needs a stride of 1, got ", as_shape(g.stride, g.ndim));
  SpatialValues after{0, 0, 0};
  for (int i = 3 - g.ndim; i < 3; ++i) {
    const int64_t sum = span_of(name, g, i) - 1;
    g.padding[i] = sum / 2;
    after[i] = sum - sum / 2;
  }
  return after;
}

}  // namespace

ConvolutionGeometry convolution_geometry(const char* name, int ndim, const Tensor& x, const Tensor& weight,
                                         const Tensor& bias, const Shape& stride, const ConvPadding& padding,
                                         const Shape& dilation, int64_t groups) {
  check_operands(name, ndim, x, weight, groups);
  check_groups(name, "input", x.size(1), groups);
  check_groups(name, "output", weight.size(0), groups);
  require<ShapeError>(weight.size(1) == x.size(1) / groups, name, ": the weight ", weight.shape(), " takes ",
                      weight.size(1), " channels for each of ", groups, " groups, x has ", x.size(1),
                      "; x is ", describe(x));
  check_bias(name, bias, weight, weight.size(0));
  ConvolutionGeometry g{.ndim = ndim,
                        .batch = x.size(0),
                        .in_channels = x.size(1),
                        .out_channels = weight.size(0),
                        .groups = groups,
                        .in = extents(x.shape(), 2, ndim),
                        .kernel = extents(weight.shape(), 2, ndim),
                        .stride = amounts(name, "stride", stride, ndim, 1),
                        .dilation = amounts(name, "dilation", dilation, ndim, 1)};
  set_positions(name, g, set_padding(name, g, padding));
  return g;
}

ConvolutionGeometry transposed_geometry(const char* name, int ndim, const Tensor& x, const Tensor& weight,
                                        const Tensor& bias, const Shape& stride, const Shape& padding,
                                        const Shape& output_padding, int64_t groups, const Shape& dilation) {
  check_operands(name, ndim, x, weight, groups);
  check_groups(name, "input", x.size(1), groups);
  require<ShapeError>(weight.size(0) == x.size(1), name, ": the weight ", weight.shape(), " takes ",
                      weight.size(0), " channels, x has ", x.size(1), "; x is ", describe(x));
  ConvolutionGeometry g{.ndim = ndim,
                        .batch = x.size(0),
                        .in_channels = multiply_sizes(weight.size(1), groups, name),
                        .out_channels = x.size(1),
                        .groups = groups,
                        .out = extents(x.shape(), 2, ndim),
                        .kernel = extents(weight.shape(), 2, ndim),
                        .stride = amounts(name, "stride", stride, ndim, 1),
                        .padding = amounts(name, "padding", padding, ndim, 0),
                        .dilation = amounts(name, "dilation", dilation, ndim, 1)};
  check_bias(name, bias, weight, g.in_channels);
  const SpatialValues further = amounts(name, "output_padding", output_padding, ndim, 0);
  for (int i = 3 - ndim; i < 3; ++i) {
    require<ValueError>(further[i] < std::max(g.stride[i], g.dilation[i]), name,
                        ": expected an output_padding below the stride ", as_shape(g.stride, ndim),
                        " or the dilation ", as_shape(g.dilation, ndim), ", got ", output_padding);
    const int64_t windows = multiply_sizes(g.out[i] - 1, g.stride[i], name);
    g.in[i] = add_sizes(windows, span_of(name, g, i) + further[i], name) - 2 * g.padding[i];
    require<ShapeError>(g.in[i] >= 1 && g.out[i] >= 1, name, ": x ", x.shape(), " with kernel ",
                        as_shape(g.kernel, ndim), " and padding ", as_shape(g.padding, ndim),
                        " gives an extent of ", g.in[i]);
  }
  return g;
}

ConvolutionGeometry unfold_geometry(const Tensor& x, const Shape& kernel_size, const Shape& dilation,
                                    const Shape& padding, const Shape& stride) {
  common_device("unfold", {&x});
  require_floating("unfold", x);
  require<ShapeError>(x.ndim() == 4, "unfold: expected x (N, C, H, W) or (C, H, W), got ", describe(x));
  ConvolutionGeometry g{.ndim = 2,
                        .batch = x.size(0),
                        .in_channels = x.size(1),
                        .out_channels = 1,
                        .in = extents(x.shape(), 2, 2),
                        .kernel = amounts("unfold", "kernel_size", kernel_size, 2, 1),
                        .stride = amounts("unfold", "stride", stride, 2, 1),
                        .padding = amounts("unfold", "padding", padding, 2, 0),
                        .dilation = amounts("unfold", "dilation", dilation, 2, 1)};
  g.kernel[0] = 1;
  set_positions("unfold", g, g.padding);
  return g;
}

ConvolutionGeometry fold_geometry(const Tensor& columns, const Shape& output_size, const Shape& kernel_size,
                                  const Shape& dilation, const Shape& padding, const Shape& stride) {
  common_device("fold", {&columns});
  require_floating("fold", columns);
  require<ShapeError>(columns.ndim() == 3, "fold: expected x (N, C taps, L) or (C taps, L), got ",
                      describe(columns));
  ConvolutionGeometry g{.ndim = 2,
                        .batch = columns.size(0),
                        .out_channels = 1,
                        .in = amounts("fold", "output_size", output_size, 2, 1),
                        .kernel = amounts("fold", "kernel_size", kernel_size, 2, 1),
                        .stride = amounts("fold", "stride", stride, 2, 1),
                        .padding = amounts("fold", "padding", padding, 2, 0),
                        .dilation = amounts("fold", "dilation", dilation, 2, 1)};
  set_positions("fold", g, g.padding);
  require<ShapeError>(columns.size(1) % g.taps() == 0, "fold: the kernel ", kernel_size, " has ", g.taps(),
                      " elements, which do not divide the ", columns.size(1), " rows of x ", columns.shape());
  require<ShapeError>(columns.size(2) == g.positions(), "fold: the output ", output_size, " has ",
                      g.positions(), " windows, x ", columns.shape(), " has ", columns.size(2));
  g.in_channels = columns.size(1) / g.taps();
  return g;
}

}  // namespace ops
}  // namespace tessera

#include "nn/layers/convolution.h"

#include <cmath>

namespace tessera::nn::detail {
namespace {

template <class Options>
void check_common(const char* kind, int ndim, const Options& o) {
  require<ConfigError>(o.in_channels >= 1 && o.out_channels >= 1 && o.groups >= 1, kind,
                       ": expected channels and groups of at least 1, got ", o.in_channels, " -> ",
                       o.out_channels, " in ", o.groups, " groups");
  require<ConfigError>(o.in_channels % o.groups == 0 && o.out_channels % o.groups == 0, kind, ": ", o.groups,
                       " groups do not divide the channels ", o.in_channels, " -> ", o.out_channels);
  for (const auto& [what, shape] : {std::pair<const char*, const Shape*>{"kernel_size", &o.kernel_size},
                                    {"stride", &o.stride},
                                    {"dilation", &o.dilation}}) {
    require<ConfigError>(shape->ndim() == 1 || shape->ndim() == ndim, kind, ": expected 1 or ", ndim,
                         " entries of ", what, ", got ", *shape);
    for (const int64_t value : *shape)
      require<ConfigError>(value >= 1, kind, ": expected a ", what, " of at least 1, got ", *shape);
  }
}

int64_t entry(const Shape& shape, int i) {
  return shape[shape.ndim() == 1 ? 0 : i];
}

Shape with_kernel(int64_t first, int64_t second, const Shape& kernel, int ndim) {
  Shape shape{first, second};
  for (int i = 0; i < ndim; ++i) shape.push_back(entry(kernel, i));
  return shape;
}

void check_input(const Module& layer, int64_t channels, int ndim, const Variable& x, const Variable& weight) {
  const bool fits = x.ndim() == ndim + 1 || x.ndim() == ndim + 2;
  require<ShapeError>(fits, layer.kind(), " '", layer.full_name(), "': expected an input of ", ndim + 2,
                      " dimensions, or ", ndim + 1, " for one image; x is ", x);
  require<ShapeError>(x.size(-ndim - 1) == channels, layer.kind(), " '", layer.full_name(), "': input has ",
                      x.size(-ndim - 1), " channels, the weight ", weight.shape(), " takes ", channels,
                      "; x is ", x);
}

/// x with its padding, for a mode other than zeros.
Variable padded(const Module& layer, const ConvOptions& o, int ndim, const Variable& x) {
  Shape amounts;  // from the last dimension on
  for (int i = ndim - 1; i >= 0; --i) {
    const int64_t sum = entry(o.dilation, i) * (entry(o.kernel_size, i) - 1), extent = x.size(i - ndim);
    const int64_t before = o.padding.is_same() ? sum / 2 : entry(o.padding.amounts(), i);
    const int64_t after = o.padding.is_same() ? sum - sum / 2 : before;
    const int64_t most = o.padding_mode == PaddingMode::reflect    ? extent - 1
                         : o.padding_mode == PaddingMode::circular ? extent
                                                                   : INT64_MAX;
    require<ShapeError>((extent > 0 && after <= most) || after == 0, layer.kind(), " '", layer.full_name(),
                        "': ", to_string(o.padding_mode), " padding of ", after,
                        " is more than an extent of ", extent, " gives; x is ", x);
    amounts.push_back(before);
    amounts.push_back(after);
  }
  return pad(x, amounts, o.padding_mode);
}

/// The input with the padding that is left to the convolution.
struct PaddedInput {
  Variable x;
  ConvPadding padding;
};

PaddedInput input_of(const Module& layer, const ConvOptions& o, int ndim, const Variable& x,
                     const Variable& weight) {
  check_input(layer, o.in_channels, ndim, x, weight);
  if (o.padding_mode == PaddingMode::zeros) return {x, o.padding};
  return {padded(layer, o, ndim, x), {}};
}

template <class Options>
std::string text_of(const Options& o) {
  std::string all = text(o.in_channels, " -> ", o.out_channels, ", kernel ", o.kernel_size);
  if (o.stride != Shape(1)) all += text(", stride ", o.stride);
  if (to_string(o.padding) != to_string(Shape(0))) all += text(", padding ", o.padding);
  if (o.dilation != Shape(1)) all += text(", dilation ", o.dilation);
  if (o.groups != 1) all += text(", ", o.groups, " groups");
  return all + (o.bias ? "" : ", no bias");
}

}  // namespace

ConvOptions checked(const char* kind, int ndim, ConvOptions o) {
  check_common(kind, ndim, o);
  const Shape& amounts = o.padding.amounts();
  require<ConfigError>(amounts.ndim() == 1 || amounts.ndim() == ndim, kind, ": expected 1 or ", ndim,
                       " entries of padding, got ", amounts);
  for (const int64_t value : amounts)
    require<ConfigError>(value >= 0, kind, ": expected a padding of at least 0, got ", amounts);
  bool steps_of_1 = true;
  for (const int64_t value : o.stride) steps_of_1 = steps_of_1 && value == 1;
  require<ConfigError>(!o.padding.is_same() || steps_of_1, kind,
                       ": padding \"same\" needs a stride of 1, got ", o.stride);
  return o;
}

ConvTransposeOptions checked(const char* kind, int ndim, ConvTransposeOptions o) {
  check_common(kind, ndim, o);
  return o;
}

Shape weight_shape(const ConvOptions& o, int ndim) {
  return with_kernel(o.out_channels, o.in_channels / o.groups, o.kernel_size, ndim);
}

Shape weight_shape(const ConvTransposeOptions& o, int ndim) {
  return with_kernel(o.in_channels, o.out_channels / o.groups, o.kernel_size, ndim);
}

init::Initializer bias_initializer(const init::Initializer& given, const Shape& weight) {
  if (given.defined()) return given;
  const double bound = 1 / std::sqrt(static_cast<double>(weight.numel() / weight[0]));
  return init::uniform(-bound, bound);
}

std::string describe(const ConvOptions& o) {
  return text_of(o) +
         (o.padding_mode == PaddingMode::zeros ? "" : text(", padding mode ", to_string(o.padding_mode)));
}

std::string describe(const ConvTransposeOptions& o) {
  return text_of(o) + (o.output_padding == Shape(0) ? "" : text(", output padding ", o.output_padding));
}

Variable run(const Module& layer, const ConvOptions& o, int ndim, const Variable& x, const Variable& weight,
             const Variable& bias) {
  const PaddedInput in = input_of(layer, o, ndim, x, weight);
  const auto function = ndim == 1 ? &conv1d : ndim == 2 ? &conv2d : &conv3d;
  return function(in.x, weight, bias, o.stride, in.padding, o.dilation, o.groups);
}

Variable run_relu(const Module& layer, const ConvOptions& o, int ndim, const Variable& x,
                  const Variable& added, const Variable& weight, const Variable& bias) {
  const PaddedInput in = input_of(layer, o, ndim, x, weight);
  if (!added.defined()) {
    const auto function = ndim == 1 ? &conv1d_relu : ndim == 2 ? &conv2d_relu : &conv3d_relu;
    return function(in.x, weight, bias, o.stride, in.padding, o.dilation, o.groups);
  }
  const auto function = ndim == 1 ? &conv1d_add_relu : ndim == 2 ? &conv2d_add_relu : &conv3d_add_relu;
  return function(in.x, added, weight, bias, o.stride, in.padding, o.dilation, o.groups);
}

Variable run(const Module& layer, const ConvTransposeOptions& o, int ndim, const Variable& x,
             const Variable& weight, const Variable& bias) {
  check_input(layer, o.in_channels, ndim, x, weight);
  const auto with = [&](const auto& function) {
    return function(x, weight, bias, o.stride, o.padding, o.output_padding, o.groups, o.dilation);
  };
  if (ndim == 1) return with([](const auto&... a) { return conv_transpose1d(a...); });
  if (ndim == 2) return with([](const auto&... a) { return conv_transpose2d(a...); });
  return with([](const auto&... a) { return conv_transpose3d(a...); });
}

}  // namespace tessera::nn::detail

#include "autograd/functions/layers/convolution.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/layers/convolution.h"

namespace tessera {
namespace {

using Geometry = ConvolutionGeometry;

// Three maps, each linear in both of its operands: y of x and w, dx of dy and w, dw of dy and x. The two
// gradients of each of them are the other two.

Variable input_gradient(const Geometry& g, const Variable& dy, const Variable& w, const Variable& bias = {});
Variable weight_gradient(const Geometry& g, const Variable& dy, const Variable& x);

Tensor value_of(const Variable& x) {
  return x.defined() ? x.value() : Tensor();
}

/// The gradient of the weight, input `input` of the node: a Variable of the graph, or a sum in the memory
/// that the leaf offers.
Variable weight_gradient(const Geometry& g, const Variable& dy, const Variable& x, size_t input,
                         const Wanted& wanted) {
  if (grad_mode()) return weight_gradient(g, dy, x);
  const Device device = x.device().is_batched() ? x.device() : dy.device();
  const auto [out, add] = wanted.target(input, g.weight_shape(), dy.dtype(), device);
  ops::convolution_weight_backward(g, dy.value(), x.value(), out, add);
  return out;
}

/// The gradient of a bias that was added to each channel: dy's sum over the other dimensions.
Variable bias_gradient(const Variable& dy, size_t input, const Wanted& wanted) {
  Shape shape = Shape::filled(dy.ndim(), 1);
  shape[1] = dy.size(1);
  return reshape(sum_to(dy, shape, wanted.dtype(input, dy.dtype())), {dy.size(1)});
}

Variable convolution(const Geometry& g, const Variable& x, const Variable& w, const Variable& bias = {}) {
  return record(
      "convolution", [&] { return ops::convolution(g, x.value(), w.value(), value_of(bias)); }, {x, w, bias},
      saved(saved_if(w.requires_grad(), x), saved_if(x.requires_grad(), w)),
      [g](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        Gradients gradients(3);
        if (wanted[0]) gradients[0] = input_gradient(g, dy[0], s[1]);
        if (wanted[1]) gradients[1] = weight_gradient(g, dy[0], s[0], 1, wanted);
        if (wanted[2]) gradients[2] = bias_gradient(dy[0], 2, wanted);
        return gradients;
      });
}

/// y = conv(x) + added, or with `relu` max(y, 0), of which the sign is that of the result.
Variable convolution(const Geometry& g, const Variable& x, const Variable& w, const Variable& bias,
                     const Variable& added, bool with_relu) {
  return record(
      "convolution",
      [&] { return ops::convolution(g, x.value(), w.value(), value_of(bias), value_of(added), with_relu); },
      {x, w, bias, added},
      saved(saved_if(w.requires_grad(), x), saved_if(x.requires_grad(), w),
            with_relu ? SavedItem(saved_output()) : SavedItem()),
      [g, with_relu](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
        const Variable passed = with_relu ? relu_backward(s.tensor(2), dy[0]) : dy[0];
        Gradients gradients(4);
        if (wanted[0]) gradients[0] = input_gradient(g, passed, s[1]);
        if (wanted[1]) gradients[1] = weight_gradient(g, passed, s[0], 1, wanted);
        if (wanted[2]) gradients[2] = bias_gradient(passed, 2, wanted);
        if (wanted[3]) gradients[3] = passed;
        return gradients;
      });
}

Variable input_gradient(const Geometry& g, const Variable& dy, const Variable& w, const Variable& bias) {
  return record(
      "convolution_input_gradient",
      [&] { return ops::convolution_input_backward(g, dy.value(), w.value(), value_of(bias)); },
      {dy, w, bias}, saved(saved_if(w.requires_grad(), dy), saved_if(dy.requires_grad(), w)),
      [g](Saved& s, const Incoming& dx, const Wanted& wanted) -> Gradients {
        Gradients gradients(3);
        if (wanted[0]) gradients[0] = convolution(g, dx[0], s[1]);
        if (wanted[1]) gradients[1] = weight_gradient(g, s[0], dx[0], 1, wanted);
        if (wanted[2]) gradients[2] = bias_gradient(dx[0], 2, wanted);
        return gradients;
      });
}

Variable weight_gradient(const Geometry& g, const Variable& dy, const Variable& x) {
  const auto compute = [&] {
    const Device device = x.device().is_batched() ? x.device() : dy.device();
    const Tensor dw = Tensor::empty(g.weight_shape(), dy.dtype(), device);
    ops::convolution_weight_backward(g, dy.value(), x.value(), dw);
    return dw;
  };
  return record("convolution_weight_gradient", compute, {dy, x},
                saved(saved_if(x.requires_grad(), dy), saved_if(dy.requires_grad(), x)),
                [g](Saved& s, const Incoming& dw, const Wanted& wanted) -> Gradients {
                  Gradients gradients(2);
                  if (wanted[0]) gradients[0] = convolution(g, s[1], dw[0]);
                  if (wanted[1]) gradients[1] = input_gradient(g, s[0], dw[0]);
                  return gradients;
                });
}

/// The shape of one of several images.
Shape without_first(const Shape& shape) {
  Shape rest;
  for (int i = 1; i < shape.ndim(); ++i) rest.push_back(shape[i]);
  return rest;
}

/// x as a batch of one image, where it is one image.
Variable as_batch(const char* name, const Variable& x, int ndim) {
  require<ValueError>(x.defined(), name, ": x is an undefined Variable");
  return x.ndim() == ndim + 1 ? unsqueeze(x, 0) : x;
}
/// y in the form of x.
Variable as_given(const Variable& y, const Variable& x, int ndim) {
  return x.ndim() == ndim + 1 ? squeeze(y, 0) : y;
}

/// conv_relu, or conv_add_relu where `added` is defined.
Variable forward_relu(const char* name, int ndim, const Variable& x, const Variable& added,
                      const Variable& weight, const Variable& bias, const Shape& stride,
                      const ConvPadding& padding, const Shape& dilation, int64_t groups) {
  if (autocast::lowers(x, weight, bias)) [[unlikely]]
    return forward_relu(name, ndim, autocast::low(x), added.defined() ? autocast::low(added) : added,
                        autocast::low(weight), autocast::low(bias), stride, padding, dilation, groups);
  const Variable batch = as_batch(name, x, ndim);
  const Geometry g = ops::convolution_geometry(name, ndim, batch.value(), weight.value(), value_of(bias),
                                               stride, padding, dilation, groups);
  const bool one_image = x.ndim() == ndim + 1;
  if (added.defined()) {
    const Shape of_batch = g.y_shape(), expected = one_image ? without_first(of_batch) : of_batch;
    require<ShapeError>(added.shape() == expected, name, ": expected an added tensor of the result's shape ",
                        expected, ", got ", added);
  }
  return as_given(
      convolution(g, batch, weight, bias, added.defined() && one_image ? unsqueeze(added, 0) : added, true),
      x, ndim);
}

Variable forward(const char* name, int ndim, const Variable& x, const Variable& weight, const Variable& bias,
                 const Shape& stride, const ConvPadding& padding, const Shape& dilation, int64_t groups) {
  if (autocast::lowers(x, weight, bias)) [[unlikely]]
    return forward(name, ndim, autocast::low(x), autocast::low(weight), autocast::low(bias), stride, padding,
                   dilation, groups);
  const Variable batch = as_batch(name, x, ndim);
  const Geometry g = ops::convolution_geometry(name, ndim, batch.value(), weight.value(), value_of(bias),
                                               stride, padding, dilation, groups);
  return as_given(convolution(g, batch, weight, bias), x, ndim);
}

Variable transposed(const char* name, int ndim, const Variable& x, const Variable& weight,
                    const Variable& bias, const Shape& stride, const Shape& padding,
                    const Shape& output_padding, int64_t groups, const Shape& dilation) {
  if (autocast::lowers(x, weight, bias)) [[unlikely]]
    return transposed(name, ndim, autocast::low(x), autocast::low(weight), autocast::low(bias), stride,
                      padding, output_padding, groups, dilation);
  const Variable batch = as_batch(name, x, ndim);
  const Geometry g = ops::transposed_geometry(name, ndim, batch.value(), weight.value(), value_of(bias),
                                              stride, padding, output_padding, groups, dilation);
  return as_given(input_gradient(g, batch, weight, bias), x, ndim);
}

Variable fold_windows(const Geometry& g, const Variable& columns);

Variable unfold_windows(const Geometry& g, const Variable& x) {
  return record(
      "unfold", ops::unfold_windows(g, x.value()), {x}, saved(),
      [g](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {fold_windows(g, dy[0])}; });
}

Variable fold_windows(const Geometry& g, const Variable& columns) {
  return record(
      "fold", ops::fold_windows(g, columns.value()), {columns}, saved(),
      [g](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {unfold_windows(g, dy[0])}; });
}

}  // namespace

#define TESSERA_CONVOLUTION(n)                                                                               \
  Variable conv##n##d(const Variable& x, const Variable& weight, const Variable& bias, const Shape& stride,  \
                      const ConvPadding& padding, const Shape& dilation, int64_t groups) {                   \
    return forward("conv" #n "d", n, x, weight, bias, stride, padding, dilation, groups);                    \
  }                                                                                                          \
  Variable conv##n##d_relu(const Variable& x, const Variable& weight, const Variable& bias,                  \
                           const Shape& stride, const ConvPadding& padding, const Shape& dilation,           \
                           int64_t groups) {                                                                 \
    return forward_relu("conv" #n "d_relu", n, x, {}, weight, bias, stride, padding, dilation, groups);      \
  }                                                                                                          \
  Variable conv##n##d_add_relu(const Variable& x, const Variable& added, const Variable& weight,             \
                               const Variable& bias, const Shape& stride, const ConvPadding& padding,        \
                               const Shape& dilation, int64_t groups) {                                      \
    require<ValueError>(added.defined(), "conv" #n "d_add_relu: the added tensor is an undefined Variable"); \
    return forward_relu("conv" #n "d_add_relu", n, x, added, weight, bias, stride, padding, dilation,        \
                        groups);                                                                             \
  }                                                                                                          \
  Variable conv_transpose##n##d(const Variable& x, const Variable& weight, const Variable& bias,             \
                                const Shape& stride, const Shape& padding, const Shape& output_padding,      \
                                int64_t groups, const Shape& dilation) {                                     \
    return transposed("conv_transpose" #n "d", n, x, weight, bias, stride, padding, output_padding, groups,  \
                      dilation);                                                                             \
  }
TESSERA_CONVOLUTION(1)
TESSERA_CONVOLUTION(2)
TESSERA_CONVOLUTION(3)
#undef TESSERA_CONVOLUTION

Variable unfold(const Variable& x, const Shape& kernel_size, const Shape& dilation, const Shape& padding,
                const Shape& stride) {
  const Variable batch = as_batch("unfold", x, 2);
  const Geometry g = ops::unfold_geometry(batch.value(), kernel_size, dilation, padding, stride);
  return as_given(unfold_windows(g, batch), x, 2);
}

Variable fold(const Variable& x, const Shape& output_size, const Shape& kernel_size, const Shape& dilation,
              const Shape& padding, const Shape& stride) {
  const Variable batch = as_batch("fold", x, 1);
  const Geometry g = ops::fold_geometry(batch.value(), output_size, kernel_size, dilation, padding, stride);
  return as_given(fold_windows(g, batch), x, 1);
}

}  // namespace tessera

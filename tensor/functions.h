#pragma once

#include <array>
#include <concepts>
#include <utility>

#include "tensor/composed/functions.h"
#include "tensor/composed/integers.h"
#include "tensor/operators.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/in_place.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/indexing/advanced_indexing.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/indexing/sorting.h"
#include "tensor/ops/layers/convolution.h"
#include "tensor/ops/layers/loss.h"
#include "tensor/ops/layers/softmax.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/shaping.h"
#include "tensor/ops/view.h"

/// The functions of tessera::ops as functions of tessera, beside those on Variables (autograd/functions/): of
/// Tensors alone they give a Tensor, with a Variable among the arguments a Variable.
namespace tessera {

/// Makes an operation of the lists in tensor/elementwise/op_lists.h, or its form in place, a function of
/// tessera.
#define TESSERA_USE(name) using ops::name;
TESSERA_UNARY_FLOAT_OPS(TESSERA_USE)
TESSERA_UNARY_NUMERIC_OPS(TESSERA_USE)
TESSERA_UNARY_INTEGER_OPS(TESSERA_USE)
TESSERA_UNARY_PREDICATES(TESSERA_USE)
TESSERA_BINARY_NUMERIC_OPS(TESSERA_USE)
TESSERA_BINARY_FLOAT_OPS(TESSERA_USE)
TESSERA_BINARY_INTEGER_OPS(TESSERA_USE)
TESSERA_BINARY_COMPARISONS(TESSERA_USE)
#undef TESSERA_USE
#define TESSERA_USE(name) using ops::name##_;
TESSERA_UNARY_IN_PLACE_OPS(TESSERA_USE)
#undef TESSERA_USE

/// Sizes without braces: `zeros(2, 3)` is `zeros({2, 3})`. One size alone is `zeros(2)`, too.
/// @{
#define TESSERA_OF_SIZES(name, with_shape)                     \
  template <std::integral... Sizes>                            \
  requires(sizeof...(Sizes) > 1) Tensor name(Sizes... sizes) { \
    return with_shape(Shape{static_cast<int64_t>(sizes)...});  \
  }
TESSERA_OF_SIZES(zeros, ops::zeros)
TESSERA_OF_SIZES(ones, ops::ones)
TESSERA_OF_SIZES(empty, ops::empty)
TESSERA_OF_SIZES(rand, tessera::rand)
TESSERA_OF_SIZES(randn, tessera::randn)
#undef TESSERA_OF_SIZES
/// @}

// binary.h, unary.h, ternary.h
using ops::add_;
using ops::addcdiv;
using ops::addcdiv_;
using ops::addcmul;
using ops::addcmul_;
using ops::clamp;
using ops::div_;
using ops::greater;
using ops::greater_equal;
using ops::lerp;
using ops::lerp_;
using ops::logical_and;
using ops::logical_not;
using ops::logical_or;
using ops::logical_xor;
using ops::masked_fill;
using ops::masked_fill_;
using ops::mul_;
using ops::sub_;
using ops::where;

// in_place.h
using ops::clamp_;
using ops::clamp_max_;
using ops::clamp_min_;
using ops::copy_;
using ops::pow_;
using ops::zero_;

// reduction.h, softmax.h, sorting.h
using ops::all;
using ops::any;
using ops::argmax;
using ops::argmin;
using ops::argsort;
using ops::cumsum;
using ops::log_softmax;
using ops::logsumexp;
using ops::max;
using ops::max_along;
using ops::mean;
using ops::median;
using ops::median_along;
using ops::min;
using ops::min_along;
using ops::norm;
using ops::prod;
using ops::softmax;
using ops::sort;
using ops::std;
using ops::sum;
using ops::sum_to;
using ops::topk;
using ops::var;

// convolution.h
using ops::conv1d;
using ops::conv2d;
using ops::conv3d;
using ops::conv_transpose1d;
using ops::conv_transpose2d;
using ops::conv_transpose3d;
using ops::fold;
using ops::unfold;

// creation.h, cast.h
using ops::arange;
using ops::cast;
using ops::empty;
using ops::empty_like;
using ops::eye;
using ops::fill_;
using ops::full;
using ops::full_like;
using ops::linspace;
using ops::one_hot;
using ops::ones;
using ops::ones_like;
using ops::zeros;
using ops::zeros_like;

// matmul.h
using ops::bmm;
using ops::dot;
using ops::linear;
using ops::matmul;
using ops::mm;
using ops::mv;
using ops::outer;

// shaping.h, view.h, indexing.h, advanced_indexing.h
using ops::broadcast_to;
using ops::cat;
using ops::chunk;
using ops::clone;
using ops::contiguous;
using ops::embedding;
using ops::expand;
using ops::flatten;
using ops::flip;
using ops::gather;
using ops::index_add;
using ops::index_add_;
using ops::index_copy;
using ops::index_copy_;
using ops::index_fill_;
using ops::index_select;
using ops::masked_scatter;
using ops::masked_select;
using ops::narrow;
using ops::nonzero;
using ops::pad;
using ops::permute;
using ops::repeat;
using ops::reshape;
using ops::roll;
using ops::scatter;
using ops::scatter_;
using ops::scatter_add;
using ops::scatter_add_;
using ops::select;
using ops::slice;
using ops::split;
using ops::squeeze;
using ops::stack;
using ops::t;
using ops::take;
using ops::take_along;
using ops::transpose;
using ops::tril;
using ops::triu;
using ops::unbind;
using ops::unsqueeze;
using ops::view;

/// PyTorch's `max`: with a whole number, the largest values along that dimension and their indices; with a
/// Tensor or a floating number, the larger of both, element by element. (`max(x, {0, 1})` reduces dimensions
/// to their largest values, as `amax`.) `min` alike.
/// @{
template <std::integral T>
ValuesAndIndices<Tensor> max(const Tensor& x, T dim, bool keepdim = false) {
  return max_along(x, dim, keepdim);
}
template <std::integral T>
ValuesAndIndices<Tensor> min(const Tensor& x, T dim, bool keepdim = false) {
  return min_along(x, dim, keepdim);
}
template <std::integral T>
ValuesAndIndices<Tensor> median(const Tensor& x, T dim, bool keepdim = false) {
  return median_along(x, dim, keepdim);
}
template <std::floating_point T>
Tensor max(const Tensor& x, T n) {
  return ops::maximum(x, Scalar(n));
}
template <std::floating_point T>
Tensor min(const Tensor& x, T n) {
  return ops::minimum(x, Scalar(n));
}
template <std::floating_point T>
Tensor max(T n, const Tensor& x) {
  return ops::maximum(x, Scalar(n));
}
template <std::floating_point T>
Tensor min(T n, const Tensor& x) {
  return ops::minimum(x, Scalar(n));
}
template <std::same_as<Tensor> T>
Tensor max(const Tensor& a, const T& b) {
  return ops::maximum(a, b);
}
template <std::same_as<Tensor> T>
Tensor min(const Tensor& a, const T& b) {
  return ops::minimum(a, b);
}
/// @}
/// `max` and `min` over any dimensions, the values alone.
/// @{
Tensor amax(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
/// @}
/// `std`, under a name that `using namespace tessera` does not make ambiguous.
Tensor stddev(const Tensor& x, const Shape& dims = {}, bool keepdim = false, int64_t correction = 1);

/// scalar + x, scalar times x; the larger and the smaller of both.
/// @{
Tensor add(const Scalar& n, const Tensor& x);
Tensor mul(const Scalar& n, const Tensor& x);
Tensor maximum(const Scalar& n, const Tensor& x);
Tensor minimum(const Scalar& n, const Tensor& x);
/// @}
/// x, at least `min`; x, at most `max`.
/// @{
Tensor clamp_min(const Tensor& x, const Scalar& min);
Tensor clamp_max(const Tensor& x, const Scalar& max);
/// @}
/// a where `condition` is true, else b: of the dtype that both numbers have, f32, i64 or bool.
Tensor where(const Tensor& condition, const Scalar& a, const Scalar& b);
/// Whether all elements are close: |a - b| at most atol + rtol |b|, infinities equal; NaN is close to
/// nothing. Throws as `sub`.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);

/// Lists in braces: `cat({x, y}, -1)`, `stack({x, y})`, `split(x, {1, 2}, -1)`, and pieces of one size, the
/// last of which may be smaller: `split(x, 2)`. Throw as the functions of tensor/ops/shaping.h.
/// @{
Tensor cat(std::initializer_list<Tensor> tensors, int64_t dim = 0);
Tensor stack(std::initializer_list<Tensor> tensors, int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, std::initializer_list<int64_t> sizes, int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim = 0);
/// @}
/// Exactly N chunks, for a structured binding: `auto [a, b] = chunk<2>(x, -1)`. Throws ShapeError when `dim`
/// gives fewer.
template <size_t N>
std::array<Tensor, N> chunk(const Tensor& x, int64_t dim = 0) {
  return x.chunk<N>(dim);
}

}  // namespace tessera

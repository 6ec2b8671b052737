#include "autograd/functions/elementwise/in_place.h"

#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/advanced_indexing.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/elementwise/in_place.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/indexing/advanced_indexing.h"
#include "tensor/ops/indexing/indexing.h"

namespace tessera {
namespace {

/// Zeros like dy[0]: the gradient of values that were overwritten.
Gradients no_gradient(Saved&, const Incoming& dy, const Wanted&) {
  return {Variable(Tensor::zeros_like(dy[0].value()))};
}

/// x becomes values that do not depend on it.
template <class Change>
void overwrite(const char* name, const Variable& x, Change change) {
  record_in_place(name, x, {x}, saved(), change, no_gradient);
}

/// x becomes f(x), which is recorded. An f that saves its argument gets a copy, since x is overwritten. Where
/// nothing is recorded `change` writes x itself.
template <class Change, class Function>
void replace(const char* name, const Variable& x, bool saves_argument, Change change, Function f) {
  if (!Inputs{x}.recorded()) return record_in_place(name, x, {x}, saved(), change, no_gradient);
  detail::check_in_place(name, x, true);
  copy_(x, f(saves_argument ? clone(x) : x));
}

/// The same for an f of several arguments that saves no x; they are `inputs`, x first.
template <class Change, class Function>
void replace_with(const char* name, const Variable& x, const Inputs& inputs, Change change, Function f) {
  if (!inputs.recorded()) {
    return record_in_place(name, x, inputs, saved(), change,
                           [](Saved&, const Incoming&, const Wanted&) -> Gradients { return {}; });
  }
  detail::check_in_place(name, x, true);
  copy_(x, f());
}

/// Whether the rule of a function reads its argument; where it reads the result, or nothing, no copy is
/// needed.
constexpr bool saves_argument(UnaryOp op) {
  switch (op) {
    case UnaryOp::neg:
    case UnaryOp::exp:
    case UnaryOp::sqrt:
    case UnaryOp::rsqrt:
    case UnaryOp::reciprocal:
    case UnaryOp::tanh:
    case UnaryOp::sigmoid:
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::round:
      return false;
    default:
      return true;
  }
}

}  // namespace

#define TESSERA_DEFINE(name)                                                           \
  void name##_(const Variable& x) {                                                    \
    replace(                                                                           \
        #name "_", x, saves_argument(UnaryOp::name), [&] { ops::name##_(x.value()); }, \
        [](const Variable& a) { return name(a); });                                    \
  }
TESSERA_UNARY_IN_PLACE_OPS(TESSERA_DEFINE)
#undef TESSERA_DEFINE

void pow_(const Variable& x, const Scalar& n) {
  replace(
      "pow_", x, true, [&] { ops::pow_(x.value(), n); }, [&](const Variable& a) { return pow(a, n); });
}

void clamp_(const Variable& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  replace(
      "clamp_", x, true, [&] { ops::clamp_(x.value(), low, high); },
      [&](const Variable& a) { return clamp(a, low, high); });
}

void fill_(const Variable& x, const Scalar& n) {
  overwrite("fill_", x, [&] { ops::fill_(x.value(), n); });
}

void zero_(const Variable& x) {
  overwrite("zero_", x, [&] { ops::zero_(x.value()); });
}

void copy_(const Variable& x, const Variable& y) {
  record_in_place(
      "copy_", x, {x, y}, saved(), [&] { ops::copy_(x.value(), y.value()); },
      [oy = OperandInfo(y)](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
        return {wanted[0] ? Variable(Tensor::zeros_like(dy[0].value())) : Variable(),
                wanted[1] ? oy.gradient(dy[0]) : Variable()};
      });
}

void clamp_min_(const Variable& x, const Scalar& min) {
  replace(
      "clamp_min_", x, true, [&] { ops::clamp_min_(x.value(), min); },
      [&](const Variable& a) { return clamp_min(a, min); });
}

void clamp_max_(const Variable& x, const Scalar& max) {
  replace(
      "clamp_max_", x, true, [&] { ops::clamp_max_(x.value(), max); },
      [&](const Variable& a) { return clamp_max(a, max); });
}

void lerp_(const Variable& x, const Variable& end, double weight) {
  replace_with(
      "lerp_", x, {x, end}, [&] { ops::lerp_(x.value(), end.value(), weight); },
      [&] { return lerp(x, end, weight); });
}

void addcmul_(const Variable& x, const Variable& a, const Variable& b, double factor) {
  replace_with(
      "addcmul_", x, {x, a, b}, [&] { ops::addcmul_(x.value(), a.value(), b.value(), factor); },
      [&] { return addcmul(x, a, b, factor); });
}

void addcdiv_(const Variable& x, const Variable& a, const Variable& b, double factor) {
  replace_with(
      "addcdiv_", x, {x, a, b}, [&] { ops::addcdiv_(x.value(), a.value(), b.value(), factor); },
      [&] { return addcdiv(x, a, b, factor); });
}

void masked_fill_(const Variable& x, const Tensor& mask, const Scalar& value) {
  replace_with(
      "masked_fill_", x, {x}, [&] { ops::masked_fill_(x.value(), mask, value); },
      [&] { return masked_fill(x, mask, value); });
}

void scatter_(const Variable& x, int64_t dim, const Tensor& index, const Variable& source) {
  replace_with(
      "scatter_", x, {x, source}, [&] { ops::scatter_(x.value(), dim, index, source.value()); },
      [&] { return scatter(x, dim, index, source); });
}

void scatter_(const Variable& x, int64_t dim, const Tensor& index, const Scalar& value) {
  replace_with(
      "scatter_", x, {x}, [&] { ops::scatter_(x.value(), dim, index, value); },
      [&] { return scatter(x, dim, index, value); });
}

void scatter_add_(const Variable& x, int64_t dim, const Tensor& index, const Variable& source) {
  replace_with(
      "scatter_add_", x, {x, source}, [&] { ops::scatter_add_(x.value(), dim, index, source.value()); },
      [&] { return scatter_add(x, dim, index, source); });
}

void index_add_(const Variable& x, int64_t dim, const Tensor& index, const Variable& source) {
  replace_with(
      "index_add_", x, {x, source}, [&] { ops::index_add_(x.value(), dim, index, source.value()); },
      [&] { return index_add(x, dim, index, source); });
}

void index_copy_(const Variable& x, int64_t dim, const Tensor& index, const Variable& source) {
  replace_with(
      "index_copy_", x, {x, source}, [&] { ops::index_copy_(x.value(), dim, index, source.value()); },
      [&] { return index_copy(x, dim, index, source); });
}

void index_fill_(const Variable& x, int64_t dim, const Tensor& index, const Scalar& value) {
  replace_with(
      "index_fill_", x, {x}, [&] { ops::index_fill_(x.value(), dim, index, value); },
      [&] { return index_fill(x, dim, index, value); });
}

void normal_(const Variable& x, double mean, double deviation) {
  overwrite("normal_", x, [&] { normal_(x.value(), mean, deviation); });
}

void uniform_(const Variable& x, double low, double high) {
  overwrite("uniform_", x, [&] { uniform_(x.value(), low, high); });
}

void bernoulli_(const Variable& x, double probability) {
  overwrite("bernoulli_", x, [&] { bernoulli_(x.value(), probability); });
}

}  // namespace tessera

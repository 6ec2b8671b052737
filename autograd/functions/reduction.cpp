#include "autograd/functions/reduction.h"

#include <cmath>
#include <limits>

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/indexing/sorting.h"
#include "tensor/ops/reduction.h"

namespace tessera {
namespace {

/// The axes of a reduction, to bring a result back to the dimensions and shape of x.
struct Axes {
  Shape from;     // x's shape
  Shape kept;     // with reduced axes of extent 1
  int64_t count;  // elements per result

  Axes(const Shape& shape, const Shape& axes) : from(shape), kept(shape), count(1) {
    for (int i = 0; i < shape.ndim(); ++i) {
      bool reduced = axes.empty();
      for (int64_t axis : axes) reduced |= normalize_dim(axis, shape.ndim(), "reduction") == i;
      if (!reduced) continue;
      count *= shape[i];
      kept[i] = 1;
    }
  }
  Variable with_reduced_axes(const Variable& y) const { return reshape(y, kept); }
  Variable expanded(const Variable& y) const { return broadcast_to(with_reduced_axes(y), from); }
};

using V = const Variable&;

/// `record`, with the sample layout of the result.
template <size_t N, class Rule>
Variable reduction(const char* name, Tensor result, V x, const Shape& axes, bool keepdim,
                   const std::array<SavedItem, N>& saved, Rule rule) {
  const Variable y = record(name, std::move(result), {x}, saved, std::move(rule));
  detail::set_layout_after_reduction(x, y, axes, keepdim);
  return y;
}

/// An operation that saves its input x and its output y: dx = backward(x, y, dy), where y and dy have reduced
/// axes of extent 1.
template <class Backward>
Variable saving_both(const char* name, V x, Tensor result, const Shape& axes, bool keepdim,
                     Backward backward) {
  return reduction(
      name, std::move(result), x, axes, keepdim, saved(x, saved_output(0)),
      [backward, a = Axes(x.shape(), axes)](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
        return {broadcast_to(backward(s[0], a.with_reduced_axes(s[1]), a.with_reduced_axes(dy[0])), a.from)};
      });
}

/// Mask of the elements that are the result: equal to it, or NaN where it is NaN.
Tensor extremum_mask(const Tensor& elements, const Tensor& result) {
  const Tensor equal = ops::equal(elements, result);
  const Tensor nan = ops::isnan(result);
  if (nan.is_meta() || (nan.device().is_cpu() && !ops::any(nan).item_i64())) return equal;
  return ops::where(nan, ops::isnan(elements), equal);
}

/// The share of each element in its result: 1 / (count of elements that are the result) for these, else 0.
Variable extremum_shares(const Tensor& elements, const Tensor& result, const Shape& axes) {
  const Tensor selected = ops::cast(extremum_mask(elements, result), elements.dtype());
  return ops::div(selected, ops::sum(selected, axes, true));
}

Variable extremum(const char* name, V x, Tensor result, const Shape& axes, bool keepdim) {
  return saving_both(name, x, std::move(result), axes, keepdim,
                     [axes](V a, V y, V dy) { return dy * extremum_shares(a.value(), y.value(), axes); });
}

/// True also where the values cannot be read here: those of the samples of a vmap.
bool has_zero(const Tensor& x) {
  return !x.is_meta() && x.numel() > 0 && (x.device().is_batched() || !ops::all(x).item_i64());
}

Variable one_like(V y) {
  return ops::ones({}, y.dtype(), y.device());
}
Variable zero_like(V y) {
  return ops::zeros({}, y.dtype(), y.device());
}

/// The derivative of a sum of squared deviations divided by 0: infinite, but NaN at the mean and for equal
/// values, of which `result` is NaN, as in PyTorch.
Tensor derivative_for_zero_divisor(const Tensor& deviation, const Tensor& result) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Tensor derivative = ops::full(deviation.shape(), infinity, deviation.dtype(), deviation.device());
  const Tensor undefined = ops::logical_or(ops::equal(deviation, Scalar(0)), ops::isnan(result));
  return ops::masked_fill(derivative, undefined, std::numeric_limits<double>::quiet_NaN());
}

/// At each position the product of the other factors of its result, for results with a factor of 0, by which
/// nothing can be divided. Repeats the n factors of a result n times, each time without one of them.
Variable product_of_others(V x, const Shape& axes) {
  const Axes a(x.shape(), axes);
  Shape order, back = Shape::filled(x.ndim(), 0);
  for (bool reduced : {false, true})
    for (int i = 0; i < x.ndim(); ++i)
      if ((a.kept[i] != a.from[i]) == reduced) order.push_back(i);
  for (int i = 0; i < x.ndim(); ++i) back[order[i]] = i;
  const Variable moved = permute(x, order);
  const int64_t n = a.count, rows = x.numel() / n;
  const Tensor position = ops::arange(n, i64, x.device());
  const Tensor diagonal = ops::equal(position.view({n, 1}), position.view({1, n}));
  const Variable factors = broadcast_to(reshape(moved, {rows, 1, n}), {rows, n, n});
  const Variable others = prod(masked_fill(factors, diagonal, 1.0), {2});
  return permute(reshape(others, moved.shape()), back);
}

}  // namespace

Variable sum(V x, const Shape& axes, bool keepdim) {
  if (autocast::widens(x)) [[unlikely]]
    return sum(autocast::wide(x), axes, keepdim);
  return reduction("sum", ops::sum(x.value(), axes, keepdim), x, axes, keepdim, saved(),
                   [a = Axes(x.shape(), axes)](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                     return {a.expanded(dy[0])};
                   });
}

Variable mean(V x, const Shape& axes, bool keepdim) {
  return reduction("mean", ops::mean(x.value(), axes, keepdim), x, axes, keepdim, saved(),
                   [a = Axes(x.shape(), axes)](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                     return {a.expanded(dy[0] / static_cast<double>(a.count))};
                   });
}

Variable prod(V x, const Shape& axes, bool keepdim) {
  if (autocast::widens(x)) [[unlikely]]
    return prod(autocast::wide(x), axes, keepdim);
  return saving_both("prod", x, ops::prod(x.value(), axes, keepdim), axes, keepdim, [axes](V a, V y, V dy) {
    return has_zero(a.value()) ? dy * product_of_others(a, axes) : dy * y / a;
  });
}

Variable max(V x, const Shape& axes, bool keepdim) {
  return extremum("max", x, ops::max(x.value(), axes, keepdim), axes, keepdim);
}

Variable min(V x, const Shape& axes, bool keepdim) {
  return extremum("min", x, ops::min(x.value(), axes, keepdim), axes, keepdim);
}

Variable median(V x) {
  return extremum("median", x, ops::median(x.value()), {}, false);
}

Variable var(V x, const Shape& axes, bool keepdim, int64_t correction) {
  return reduction("var", ops::var(x.value(), axes, keepdim, correction), x, axes, keepdim, saved(x),
                   [axes, correction, a = Axes(x.shape(), axes)](Saved& s, const Incoming& dy,
                                                                 const Wanted&) -> Gradients {
                     const Variable deviation = s[0] - mean(s[0], axes, true);
                     if (a.count <= correction) {
                       const Tensor result = ops::var(s.tensor(0), axes, true, correction);
                       return {a.with_reduced_axes(dy[0]) *
                               Variable(derivative_for_zero_divisor(deviation.value(), result))};
                     }
                     const double factor = 2.0 / static_cast<double>(a.count - correction);
                     return {a.with_reduced_axes(dy[0]) * factor * deviation};
                   });
}

Variable std(V x, const Shape& axes, bool keepdim, int64_t correction) {
  const int64_t count = Axes(x.shape(), axes).count;
  return saving_both(
      "std", x, ops::std(x.value(), axes, keepdim, correction), axes, keepdim,
      [axes, n = static_cast<double>(count - correction)](V a, V y, V dy) {
        const Variable deviation = a - mean(a, axes, true);
        if (n <= 0) return dy / y * 0.5 * Variable(derivative_for_zero_divisor(deviation.value(), y.value()));
        // For equal values: 0, the mean of the slopes on both sides.
        const Tensor equal = ops::equal(y.value(), Scalar(0));
        const Variable factor = where(equal, zero_like(dy), dy) / (where(equal, one_like(y), y) * n);
        return factor * deviation;
      });
}

Variable norm(V x, double p, const Shape& axes, bool keepdim) {
  if (autocast::widens(x)) [[unlikely]]
    return norm(autocast::wide(x), p, axes, keepdim);
  require<ValueError>(p > 0 || std::isinf(p),
                      "norm: the gradient needs a power above 0 or an infinite one, got ", p);
  return saving_both("norm", x, ops::norm(x.value(), p, axes, keepdim), axes, keepdim,
                     [p, axes](V a, V y, V dy) {
                       if (std::isinf(p))
                         return dy * sign(a) * extremum_shares(abs(a).value(), y.value(), axes);
                       const Tensor is_zero = ops::equal(y.value(), Scalar(0));
                       const Variable safe = where(is_zero, one_like(y), y);
                       // The powers below would give a second derivative of 0 at elements of 0.
                       if (p == 2) return where(is_zero, zero_like(dy), dy) / safe * a;
                       return dy * sign(a) * pow(abs(a) / safe, p - 1);
                     });
}

Variable logsumexp(V x, const Shape& axes, bool keepdim) {
  if (autocast::widens(x)) [[unlikely]]
    return logsumexp(autocast::wide(x), axes, keepdim);
  // The softmax from the largest element, not from the result, which for large values has lost the
  // logarithm's digits.
  return reduction(
      "logsumexp", ops::logsumexp(x.value(), axes, keepdim), x, axes, keepdim, saved(x),
      [axes, a = Axes(x.shape(), axes)](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
        if (s[0].numel() == 0) return {Variable(Tensor::zeros_like(s[0].value()))};
        const Tensor largest = ops::max(s.tensor(0), axes, true);
        const Tensor shift = ops::masked_fill(largest, ops::isinf(largest), 0.0);
        const Variable weights = exp(s[0] - Variable(shift));
        return {a.with_reduced_axes(dy[0]) / sum(weights, axes, true) * weights};
      });
}

}  // namespace tessera

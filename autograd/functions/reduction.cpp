#include "autograd/functions/reduction.h"

#include <cmath>

#include "autograd/functions/arithmetic.h"
#include "autograd/functions/broadcasting.h"
#include "autograd/functions/cast.h"
#include "autograd/functions/unary.h"
#include "autograd/functions/view.h"
#include "autograd/functions/where.h"
#include "autograd/record.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/cast.h"
#include "tensor/ops/creation.h"
#include "tensor/ops/reduction.h"

namespace tessera {
namespace {

/// What was reduced, so that a result can be laid beside x again.
struct Axes {
  Shape from;     // x's shape
  Shape kept;     // with reduced axes of extent 1
  int64_t count;  // elements behind each result

  Axes(const Shape& shape, const Shape& axes) : from(shape), kept(shape), count(1) {
    for (int i = 0; i < shape.rank(); ++i) {
      bool reduced = axes.empty();
      for (int64_t axis : axes) reduced |= normalize_dim(axis, shape.rank(), "reduction") == i;
      if (!reduced) continue;
      count *= shape[i];
      kept[i] = 1;
    }
  }
  Variable beside(const Variable& y) const { return reshape(y, kept); }
  Variable spread(const Variable& y) const { return broadcast_to(beside(y), from); }
};

using V = const Variable&;

/// An operation that saves x and its result y: dx = slope(x, y, dy), y and dy laid beside x.
template <class Slope>
Variable from_both(const char* name, V x, Tensor result, const Shape& axes, Slope slope) {
  return record(name, std::move(result), {x}, saved(x, saved_output(0)),
                [slope, a = Axes(x.shape(), axes)](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  return {broadcast_to(slope(s[0], a.beside(s[1]), a.beside(dy[0])), a.from)};
                });
}

Variable extremum(const char* name, V x, Tensor result, const Shape& axes) {
  return from_both(name, x, std::move(result), axes, [axes](V a, V y, V dy) {
    const Tensor hit = ops::cast(ops::equal(a.value(), y.value()), a.dtype());
    const Tensor hits = ops::sum(hit, axes, true);
    return dy * Variable(ops::div(hit, hits));
  });
}

}  // namespace

Variable sum(V x, const Shape& axes, bool keepdim) {
  return record("sum", ops::sum(x.value(), axes, keepdim), {x}, saved(),
                [a = Axes(x.shape(), axes)](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {a.spread(dy[0])};
                });
}

Variable mean(V x, const Shape& axes, bool keepdim) {
  return record("mean", ops::mean(x.value(), axes, keepdim), {x}, saved(),
                [a = Axes(x.shape(), axes)](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {a.spread(dy[0] / static_cast<double>(a.count))};
                });
}

Variable prod(V x, const Shape& axes, bool keepdim) {
  return from_both("prod", x, ops::prod(x.value(), axes, keepdim), axes, [](V a, V y, V dy) { return dy * y / a; });
}

Variable max(V x, const Shape& axes, bool keepdim) {
  return extremum("max", x, ops::max(x.value(), axes, keepdim), axes);
}

Variable min(V x, const Shape& axes, bool keepdim) {
  return extremum("min", x, ops::min(x.value(), axes, keepdim), axes);
}

Variable var(V x, const Shape& axes, bool keepdim, int64_t correction) {
  return record("var", ops::var(x.value(), axes, keepdim, correction), {x}, saved(x),
                [axes, correction, a = Axes(x.shape(), axes)](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  const double factor = 2.0 / static_cast<double>(a.count - correction);
                  return {a.beside(dy[0]) * factor * (s[0] - mean(s[0], axes, true))};
                });
}

Variable std(V x, const Shape& axes, bool keepdim, int64_t correction) {
  const int64_t count = Axes(x.shape(), axes).count;
  return from_both("std", x, ops::std(x.value(), axes, keepdim, correction), axes,
                   [axes, n = static_cast<double>(count - correction)](V a, V y, V dy) {
                     return dy / (y * n) * (a - mean(a, axes, true));
                   });
}

Variable norm(V x, double p, const Shape& axes, bool keepdim) {
  require<ValueError>(p > 0 && std::isfinite(p), "norm: the gradient needs a finite power above 0, got ", p);
  return from_both("norm", x, ops::norm(x.value(), p, axes, keepdim), axes, [p](V a, V y, V dy) {
    const Tensor zero = ops::equal(y.value(), Scalar(0));
    const Variable safe = where(zero, Variable(ops::ones({}, y.dtype(), y.device())), y);
    return dy * sign(a) * pow(abs(a) / safe, p - 1);
  });
}

Variable logsumexp(V x, const Shape& axes, bool keepdim) {
  return from_both("logsumexp", x, ops::logsumexp(x.value(), axes, keepdim), axes,
                   [](V a, V y, V dy) { return dy * exp(a - y); });
}

}  // namespace tessera

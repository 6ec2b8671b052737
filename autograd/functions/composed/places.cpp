#include "autograd/functions/composed/places.h"

#include <algorithm>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/indexed_elements.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/functions.h"
#include "tensor/ops/indexing/scatter_multiply.h"

namespace tessera {
using X = Variable;
namespace {

const Tensor& values_of(const Variable& x) {
  return x.value();
}

/// The product of the other factors, for each factor: of an element of x those of the source for it, and of
/// an element of `source` the others and that of x. A quotient of products without the factors that are 0;
/// the factors of 0 come back as their sum, which has the right derivatives for up to two of them.
struct OtherFactors {
  Variable of_x, of_source;
};

Variable others(const Variable& factor, const Variable& nonzero, const Variable& product,
                const Variable& zeros, const Tensor& count) {
  const Tensor is_zero = ops::equal(factor.value(), Scalar(0));
  const Tensor zero_others = ops::sub(count, ops::cast(is_zero, i64));
  const Variable one = ops::ones({}, factor.dtype(), factor.device());
  const Variable rest =
      where(ops::equal(zero_others, Scalar(0)), one,
            where(ops::equal(zero_others, Scalar(1)), zeros - where(is_zero, factor, 0.0), 0.0 * one));
  return where(is_zero, product, product / nonzero) * rest;
}

OtherFactors other_factors(const Variable& x, int64_t dim, const Tensor& index, const Variable& source);

Variable scatter_multiply(const Variable& x, int64_t dim, const Tensor& index, const Variable& source) {
  return record("scatter_reduce", ops::scatter_multiply(x.value(), dim, index, source.value()), {x, source},
                saved(x, source, index),
                [dim](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  const Tensor places = s.tensor(2);
                  const OtherFactors rest = other_factors(s[0], dim, places, s[1]);
                  return {wanted[0] ? dy[0] * rest.of_x : Variable(),
                          wanted[1] ? gather(dy[0], dim, places) * rest.of_source : Variable()};
                });
}

OtherFactors other_factors(const Variable& x, int64_t dim, const Tensor& index, const Variable& source) {
  const Tensor x_zero = ops::equal(x.value(), Scalar(0)), source_zero = ops::equal(source.value(), Scalar(0));
  const Variable x_nonzero = where(x_zero, Scalar(1.0), x), nonzero = where(source_zero, Scalar(1.0), source);
  const Variable product = scatter_multiply(x_nonzero, dim, index, nonzero);
  const Variable zeros =
      scatter_add(where(x_zero, x, Scalar(0.0)), dim, index, where(source_zero, source, Scalar(0.0)));
  const Tensor count = ops::scatter_add(ops::cast(x_zero, i64), dim, index, ops::cast(source_zero, i64));
  return {others(x, x_nonzero, product, zeros, count),
          others(source, nonzero, gather(product, dim, index), gather(zeros, dim, index),
                 ops::gather(count, dim, index))};
}

}  // namespace

Tensor isin(const Variable& x, const Variable& test, bool invert) {
  return isin(x.value(), test.value(), invert);
}

Tensor unique_consecutive(const Variable& x) {
  return unique_consecutive(x.value());
}

Tensor searchsorted(const Variable& unsorted, const Variable& values, bool right, const Tensor& sorter) {
  return searchsorted(unsorted.value(), values.value(), right, sorter);
}

Tensor bucketize(const Variable& values, const Variable& boundaries, bool right) {
  return bucketize(values.value(), boundaries.value(), right);
}

}  // namespace tessera

#include "tensor/composed/indexing/places.inc"

#include "autograd/functions/composed/statistics.h"

#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/indexing/sorting.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"

namespace tessera {
using X = Variable;
namespace {

const Tensor& values_of(const Variable& x) {
  return x.value();
}

}  // namespace

Tensor histc(const Variable& x, int64_t bins, double min, double max) {
  return histc(x.value(), bins, min, max);
}

}  // namespace tessera

#include "tensor/composed/statistics/statistics.inc"

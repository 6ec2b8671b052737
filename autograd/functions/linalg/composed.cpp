#include "autograd/functions/linalg/composed.h"

#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "tensor/functions.h"
#include "tensor/ops/linalg/matrices.h"

namespace tessera {
using X = Variable;
namespace {

const Tensor& value_of(const Variable& x) {
  return x.value();
}

}  // namespace

namespace linalg {

Tensor matrix_rank(const Variable& a, const RankTolerance& tolerance, bool hermitian) {
  return matrix_rank(a.value(), tolerance, hermitian);
}

}  // namespace linalg
}  // namespace tessera

#include "tensor/composed/linalg.inc"

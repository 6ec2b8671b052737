#include "autograd/functions/composed.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/advanced_indexing.h"
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

Variable product_operand(const Variable& x) {
  return is_autocast_enabled() ? autocast::low(x) : x;
}
Variable f32_operand(const Variable& x) {
  return is_autocast_enabled() ? autocast::wide(x) : x;
}
struct WithoutAutocast : AutocastScope {
  WithoutAutocast() : AutocastScope(f32) {}
};

}  // namespace
}  // namespace tessera

#include "tensor/composed/functions.inc"
//
#include "tensor/composed/einsum.inc"

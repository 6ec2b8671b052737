#include "tensor/composed/functions.h"

#include "tensor/functions.h"

namespace tessera {
using X = Tensor;
namespace {

// Autocast is for Variables.
const Tensor& product_operand(const Tensor& x) {
  return x;
}
const Tensor& f32_operand(const Tensor& x) {
  return x;
}
struct WithoutAutocast {
  WithoutAutocast() {}
};

}  // namespace
}  // namespace tessera

#include "tensor/composed/functions.inc"
//
#include "tensor/composed/einsum.inc"

// The methods of Variable that call functions.

#include "tensor/methods.h"

#include "autograd/functions/composed.h"
#include "autograd/functions/composed/arrangements.h"
#include "autograd/functions/composed/places.h"
#include "autograd/functions/composed/statistics.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/in_place.h"
#include "autograd/functions/elementwise/special_function.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/advanced_indexing.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/indexing/sorting.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/methods/definitions.h"

namespace tessera {

template class TensorMethods<Variable>;

Variable Variable::view(const Shape& shape) const {
  return tessera::view(*this, shape);
}

Variable Variable::reshape(const Shape& shape) const {
  return tessera::reshape(*this, shape);
}

Variable Variable::flatten(int64_t start, int64_t end) const {
  return tessera::flatten(*this, start, end);
}

Variable Variable::transpose(int64_t dim0, int64_t dim1) const {
  return tessera::transpose(*this, dim0, dim1);
}

Variable Variable::permute(const Shape& order) const {
  return tessera::permute(*this, order);
}

Variable Variable::expand(const Shape& shape) const {
  return tessera::expand(*this, shape);
}

Variable Variable::slice(int64_t dim, int64_t start, int64_t end, int64_t step) const {
  return tessera::slice(*this, dim, start, end, step);
}

Variable Variable::narrow(int64_t dim, int64_t start, int64_t length) const {
  return tessera::narrow(*this, dim, start, length);
}

Variable Variable::select(int64_t dim, int64_t i) const {
  return tessera::select(*this, dim, i);
}

Variable Variable::unsqueeze(int64_t dim) const {
  return tessera::unsqueeze(*this, dim);
}

Variable Variable::squeeze(int64_t dim) const {
  return tessera::squeeze(*this, dim);
}

Variable Variable::squeeze() const {
  return tessera::squeeze(*this);
}

Variable Variable::clone() const {
  return tessera::clone(*this);
}

Variable Variable::contiguous() const {
  return tessera::contiguous(*this);
}

Variable Variable::to(DType dtype) const {
  return cast(*this, dtype);
}

Variable Variable::to(Device device) const {
  if (this->device() == device) return *this;
  return record("to", value().to(device), {*this}, saved(),
                [from = this->device()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {dy[0].to(from)};
                });
}

Variable Variable::to(Device device, DType dtype) const {
  return to(dtype).to(device);
}

}  // namespace tessera

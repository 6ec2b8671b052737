#include "autograd/functions/images/interpolation.h"

#include "autograd/record.h"

namespace tessera {
namespace {

Variable interpolate_gradient(const Variable& dy, const Shape& from, const InterpolateOptions& options) {
  return record("interpolate_gradient", ops::interpolate_backward(dy.value(), from, options), {dy}, saved(),
                [options](Saved&, const Incoming& ddx, const Wanted&) -> Gradients {
                  return {interpolate(ddx[0], options)};
                });
}

}  // namespace

Variable interpolate(const Variable& x, const InterpolateOptions& options) {
  return record("interpolate", ops::interpolate(x.value(), options), {x}, saved(),
                [options, from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {interpolate_gradient(dy[0], from, options)};
                });
}

}  // namespace tessera

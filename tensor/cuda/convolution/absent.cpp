// Convolutions of a build that did not find cuDNN's headers.
#include "tensor/cuda/convolution/convolution.h"
#include "tensor/error.h"

namespace tessera::kernels::cuda {
namespace {

[[noreturn]] void throw_not_built(const char* what, const Tensor& on) {
  throw NotBuiltError(text(what, ": this build has no kernel for ", on.device(),
                           ": cuDNN's headers were not found when it was configured"));
}

}  // namespace

void convolution(const ConvolutionGeometry&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool,
                 const Tensor& y) {
  throw_not_built("convolution", y);
}
void convolution_input_gradient(const ConvolutionGeometry&, const Tensor&, const Tensor&, const Tensor& dx) {
  throw_not_built("convolution_input_gradient", dx);
}
void convolution_weight_gradient(const ConvolutionGeometry&, const Tensor&, const Tensor&, bool,
                                 const Tensor& dw) {
  throw_not_built("convolution_weight_gradient", dw);
}

}  // namespace tessera::kernels::cuda

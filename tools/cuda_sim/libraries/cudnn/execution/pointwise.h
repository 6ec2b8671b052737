// Functions of one element: of x, of x and b, of x, b and a mask.
#pragma once

#include <cudnn.h>

#include "tools/cuda_sim/libraries/cudnn/execution/array.h"

namespace tessera::cuda_sim::cudnn {

/// How many operands a mode reads; 0 for a mode that is not simulated.
int pointwise_operands(cudnnPointwiseMode_t mode);
/// Whether it is a derivative, of dy and x.
bool is_pointwise_backward(cudnnPointwiseMode_t mode);

/// The parameters of a mode.
struct PointwiseParameters {
  double lower_clip, upper_clip, slope;  ///< relu
  double elu_alpha, softplus_beta, swish_beta;
};

/// f(x, b, t); `b` is dy's x in a derivative.
double pointwise_value(cudnnPointwiseMode_t mode, const PointwiseParameters& p, double x, double b, double t);

}  // namespace tessera::cuda_sim::cudnn

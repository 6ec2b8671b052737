#pragma once

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/attention.h"
#include "autograd/functions/layers/convolution.h"
#include "autograd/functions/layers/dropout.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/matmul.h"
#include "nn/loss.h"

/// The functions that the layers call, for models written without modules.
namespace tessera::nn {

using tessera::conv1d;
using tessera::conv2d;
using tessera::conv3d;
using tessera::conv_transpose1d;
using tessera::conv_transpose2d;
using tessera::conv_transpose3d;
using tessera::dropout;
using tessera::embedding;
using tessera::fold;
using tessera::gelu;
using tessera::gelu_tanh;
using tessera::layer_norm;
using tessera::linear;
using tessera::log_softmax;
using tessera::relu;
using tessera::rms_norm;
using tessera::scaled_dot_product_attention;
using tessera::sigmoid;
using tessera::silu;
using tessera::softmax;
using tessera::tanh;
using tessera::unfold;

}  // namespace tessera::nn

#pragma once

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/attention.h"
#include "autograd/functions/layers/dropout.h"
#include "autograd/functions/layers/gated.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/layers/rotary.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/matmul.h"
#include "nn/loss.h"

/// The functions that the layers call, for models written without modules.
namespace tessera::nn {

using tessera::dropout;
using tessera::embedding;
using tessera::geglu;
using tessera::gelu;
using tessera::gelu_tanh;
using tessera::glu;
using tessera::layer_norm;
using tessera::linear;
using tessera::log_softmax;
using tessera::relu;
using tessera::rms_norm;
using tessera::rotary;
using tessera::scaled_dot_product_attention;
using tessera::sigmoid;
using tessera::silu;
using tessera::softmax;
using tessera::swiglu;
using tessera::tanh;

}  // namespace tessera::nn

#pragma once

#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/activation_function.h"
#include "autograd/functions/elementwise/in_place.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/attention.h"
#include "autograd/functions/layers/dropout.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/matmul.h"
#include "nn/loss.h"

/// The functions that the layers call, for models written without modules.
namespace tessera::nn {

using tessera::celu;
using tessera::celu_;
using tessera::dropout;
using tessera::elu;
using tessera::elu_;
using tessera::embedding;
using tessera::gelu;
using tessera::gelu_tanh;
using tessera::gumbel_softmax;
using tessera::hardshrink;
using tessera::hardsigmoid;
using tessera::hardsigmoid_;
using tessera::hardswish;
using tessera::hardswish_;
using tessera::hardtanh;
using tessera::hardtanh_;
using tessera::layer_norm;
using tessera::leaky_relu;
using tessera::leaky_relu_;
using tessera::linear;
using tessera::log_softmax;
using tessera::logsigmoid;
using tessera::mish;
using tessera::mish_;
using tessera::prelu;
using tessera::relu;
using tessera::relu6;
using tessera::relu6_;
using tessera::relu_;
using tessera::rms_norm;
using tessera::rrelu;
using tessera::rrelu_;
using tessera::scaled_dot_product_attention;
using tessera::selu;
using tessera::selu_;
using tessera::sigmoid;
using tessera::silu;
using tessera::softmax;
using tessera::softmin;
using tessera::softplus;
using tessera::softshrink;
using tessera::softsign;
using tessera::tanh;
using tessera::tanhshrink;
using tessera::threshold;
using tessera::threshold_;

}  // namespace tessera::nn

#pragma once

#include "autograd/functions/layers/loss.h"
#include "autograd/functions/losses/classification.h"
#include "autograd/functions/losses/ctc_loss.h"
#include "autograd/functions/losses/distances.h"
#include "autograd/functions/losses/regression.h"

/// Losses as functions: `nn::cross_entropy(logits, targets)`. As modules: nn/losses.
namespace tessera::nn {

using tessera::bce_with_logits;
using tessera::binary_cross_entropy;
using tessera::binary_cross_entropy_with_logits;
using tessera::cosine_embedding_loss;
using tessera::cross_entropy;
using tessera::ctc_loss;
using tessera::gaussian_nll_loss;
using tessera::hinge_embedding_loss;
using tessera::huber_loss;
using tessera::kl_div;
using tessera::l1_loss;
using tessera::linear_cross_entropy;
using tessera::margin_ranking_loss;
using tessera::mse_loss;
using tessera::multi_margin_loss;
using tessera::multilabel_margin_loss;
using tessera::multilabel_soft_margin_loss;
using tessera::nll_loss;
using tessera::pairwise_distance;
using tessera::poisson_nll_loss;
using tessera::smooth_l1_loss;
using tessera::soft_margin_loss;
using tessera::triplet_margin_loss;
using tessera::triplet_margin_with_distance_loss;

}  // namespace tessera::nn

#pragma once

#include "autograd/functions/losses/classification.h"
#include "nn/losses/regression.h"

/// Losses of classes and labels as modules, with PyTorch's names: each is the function of the same name
/// (autograd/functions/losses/classification.h), whose arguments are its options. Class weights are options:
/// they are constants, on the device and of the dtype of the input, and in no state dict.
namespace tessera::nn {

/// Options of CrossEntropyLoss.
struct CrossEntropyLossOptions {
  Tensor weight = {};                             ///< of each class, (classes); undefined: 1
  int64_t ignore_index = -100;                    ///< targets of this id do not count
  LossReduction reduction = LossReduction::mean;  ///< of the targets that count
  double label_smoothing = 0;                     ///< the share of the target spread over all classes
  int64_t class_dim = -1;                         ///< the dimension of the classes; PyTorch's layout: 1
};
/// Cross entropy of logits and class ids, or probabilities. Throws as `cross_entropy`.
struct CrossEntropyLoss : Layer<CrossEntropyLoss, CrossEntropyLossOptions> {
  /// By default the classes are the last dimension, as in `cross_entropy`: for logits (N, C, d1, ...) write
  /// `{.class_dim = 1}`. Logits (N, C) are both.
  explicit CrossEntropyLoss(Options options = {}) : Layer(std::move(options)) {}
  /// logits (..., classes) and ids (...), i64 or i32; or probabilities of the logits' shape, floating.
  /// @{
  Variable forward(const Variable& logits, const Tensor& targets) const;
  Variable forward(const Variable& logits, const Variable& targets) const;
  /// @}
};

/// Cross entropy of a sequence: logits (B, T, C) and labels (B, T), or of any shapes (..., C) and of as many
/// elements, as rows (B T, C) and ids (B T). The same loss as CrossEntropyLoss of (B, T, C) here, and as that
/// of (B, C, T) with `class_dim = 1`, which `SwapAxes` makes. Throws ShapeError where the numbers differ.
struct CrossEntropyLossFlatView : Layer<CrossEntropyLossFlatView, CrossEntropyLossOptions> {
  /// `class_dim` has no meaning here.
  explicit CrossEntropyLossFlatView(Options options = {}) : Layer(std::move(options)) {}
  /// logits.view(-1, C) and labels.view(-1).
  Variable forward(const Variable& logits, const Tensor& labels) const;
};
/// The name that the module has in programs of DeepSpeed's pipelines.
using CrossEntropyLoss_FlatView = CrossEntropyLossFlatView;

/// Options of SwapAxes.
struct SwapAxesOptions {
  int64_t axis0 = 1;  ///< exchanged with
  int64_t axis1 = 2;  ///< this one
};
/// Two dimensions exchanged, as a layer: (B, T, C) to (B, C, T).
struct SwapAxes : Layer<SwapAxes, SwapAxesOptions> {
  /// By default dimensions 1 and 2.
  explicit SwapAxes(Options options = {}) : Layer(options) {}
  /// A view of x.
  Variable forward(const Variable& x) const;
};

/// Options of NLLLoss.
struct NLLLossOptions {
  Tensor weight = {};                             ///< of each class, (classes); undefined: 1
  int64_t ignore_index = -100;                    ///< targets of this id do not count
  LossReduction reduction = LossReduction::mean;  ///< of the targets that count
  int64_t class_dim = -1;                         ///< the dimension of the classes; PyTorch's layout: 1
};
/// The negative log-likelihood of class ids, given logarithms of probabilities.
struct NLLLoss : Layer<NLLLoss, NLLLossOptions> {
  /// By default the classes are the last dimension.
  explicit NLLLoss(Options options = {}) : Layer(std::move(options)) {}
  /// `nll_loss(x, targets, o.weight, o.ignore_index, o.reduction, o.class_dim)`.
  Variable forward(const Variable& x, const Tensor& targets) const {
    return nll_loss(x, targets, o.weight, o.ignore_index, o.reduction, o.class_dim);
  }
};

/// Options of BCELoss.
struct BCELossOptions {
  Tensor weight = {};                             ///< of each element, broadcast; undefined: 1
  LossReduction reduction = LossReduction::mean;  ///< of the elements' losses
};
/// Binary cross entropy of probabilities.
struct BCELoss : Layer<BCELoss, BCELossOptions> {
  /// By default the mean.
  explicit BCELoss(Options options = {}) : Layer(std::move(options)) {}
  /// `binary_cross_entropy(x, target, o.weight, o.reduction)`.
  Variable forward(const Variable& x, const Variable& target) const;
};

/// Options of BCEWithLogitsLoss.
struct BCEWithLogitsLossOptions {
  Tensor weight = {};                             ///< of each element, broadcast; undefined: 1
  LossReduction reduction = LossReduction::mean;  ///< of the elements' losses
  Tensor pos_weight = {};                         ///< of positive targets, broadcast; undefined: 1
};
/// Binary cross entropy of sigmoid(x), without overflow.
struct BCEWithLogitsLoss : Layer<BCEWithLogitsLoss, BCEWithLogitsLossOptions> {
  /// By default the mean.
  explicit BCEWithLogitsLoss(Options options = {}) : Layer(std::move(options)) {}
  /// `binary_cross_entropy_with_logits(x, target, o.weight, o.reduction, o.pos_weight)`.
  Variable forward(const Variable& x, const Variable& target) const;
};

/// Options of KLDivLoss.
struct KLDivLossOptions {
  KlReduction reduction = KlReduction::mean;  ///< `batchmean` is the divergence of one sample
  bool log_target = false;                    ///< whether the target is a logarithm
};
/// The Kullback-Leibler divergence of a target from logarithms of probabilities.
struct KLDivLoss : Layer<KLDivLoss, KLDivLossOptions> {
  /// By default the mean over all elements.
  explicit KLDivLoss(Options options = {}) : Layer(options) {}
  /// `kl_div(x, target, o.reduction, o.log_target)`.
  Variable forward(const Variable& x, const Variable& target) const {
    return kl_div(x, target, o.reduction, o.log_target);
  }
};

/// log(1 + exp(-target x)), for targets 1 and -1.
struct SoftMarginLoss : Layer<SoftMarginLoss, LossOptions> {
  /// By default the mean.
  explicit SoftMarginLoss(Options options = {}) : Layer(options) {}
  /// `soft_margin_loss(x, target, o.reduction)`.
  Variable forward(const Variable& x, const Variable& target) const {
    return soft_margin_loss(x, target, o.reduction);
  }
};

/// Options of MultiMarginLoss.
struct MultiMarginLossOptions {
  int64_t p = 1;                                  ///< the power, 1 or 2
  double margin = 1;                              ///< by which the target should be larger
  Tensor weight = {};                             ///< of each class, (classes); undefined: 1
  LossReduction reduction = LossReduction::mean;  ///< of the rows' losses
};
/// A hinge loss of several classes.
struct MultiMarginLoss : Layer<MultiMarginLoss, MultiMarginLossOptions> {
  /// By default with p 1 and margin 1.
  explicit MultiMarginLoss(Options options = {}) : Layer(std::move(options)) {}
  /// `multi_margin_loss(x, targets, o.p, o.margin, o.weight, o.reduction)`.
  Variable forward(const Variable& x, const Tensor& targets) const {
    return multi_margin_loss(x, targets, o.p, o.margin, o.weight, o.reduction);
  }
};

/// A hinge loss of several labels: those of a row, then -1.
struct MultiLabelMarginLoss : Layer<MultiLabelMarginLoss, LossOptions> {
  /// By default the mean.
  explicit MultiLabelMarginLoss(Options options = {}) : Layer(options) {}
  /// `multilabel_margin_loss(x, targets, o.reduction)`.
  Variable forward(const Variable& x, const Tensor& targets) const {
    return multilabel_margin_loss(x, targets, o.reduction);
  }
};

/// Binary cross entropies of several labels, their mean over the classes.
struct MultiLabelSoftMarginLoss : Layer<MultiLabelSoftMarginLoss, BCELossOptions> {
  /// By default the mean.
  explicit MultiLabelSoftMarginLoss(Options options = {}) : Layer(std::move(options)) {}
  /// `multilabel_soft_margin_loss(x, target, o.weight, o.reduction)`.
  Variable forward(const Variable& x, const Variable& target) const;
};

}  // namespace tessera::nn

#include "nn/losses/classification.h"

#include "autograd/functions/composed.h"
#include "autograd/functions/view.h"

namespace tessera::nn {
namespace {

Variable constant(const Tensor& x) {
  return x.defined() ? Variable(x) : Variable();
}

CrossEntropyOptions options_of(const CrossEntropyLossOptions& o) {
  return {.ignore_index = o.ignore_index, .label_smoothing = o.label_smoothing, .reduction = o.reduction};
}

/// x with the classes in the last dimension.
template <class X>
X classes_last(const X& x, int64_t class_dim) {
  const int64_t dim = normalize_dim(class_dim, x.ndim(), "nn::CrossEntropyLoss");
  return dim == x.ndim() - 1 || x.ndim() == 0 ? x : movedim(x, {dim}, {-1});
}

}  // namespace

Variable CrossEntropyLoss::forward(const Variable& logits, const Tensor& targets) const {
  if (targets.defined() && is_floating(targets.dtype())) return forward(logits, Variable(targets));
  return cross_entropy(classes_last(logits, o.class_dim), targets, options_of(o), o.weight);
}

Variable CrossEntropyLoss::forward(const Variable& logits, const Variable& targets) const {
  if (!is_floating(targets.dtype())) return forward(logits, targets.value());
  return cross_entropy(classes_last(logits, o.class_dim), classes_last(targets, o.class_dim), options_of(o),
                       o.weight);
}

Variable CrossEntropyLossFlatView::forward(const Variable& logits, const Tensor& labels) const {
  require<ShapeError>(logits.ndim() >= 1 && logits.shape().back() > 0 &&
                          labels.numel() == logits.numel() / logits.shape().back(),
                      "nn::CrossEntropyLossFlatView '", full_name(),
                      "': expected logits (..., C) and as many labels as rows, got ", logits.shape(), " and ",
                      labels.shape());
  return cross_entropy(reshape(logits, {labels.numel(), logits.shape().back()}),
                       labels.reshape({labels.numel()}), options_of(o), o.weight);
}

Variable SwapAxes::forward(const Variable& x) const {
  return transpose(x, o.axis0, o.axis1);
}

Variable BCELoss::forward(const Variable& x, const Variable& target) const {
  return binary_cross_entropy(x, target, constant(o.weight), o.reduction);
}

Variable BCEWithLogitsLoss::forward(const Variable& x, const Variable& target) const {
  return binary_cross_entropy_with_logits(x, target, constant(o.weight), o.reduction, constant(o.pos_weight));
}

Variable MultiLabelSoftMarginLoss::forward(const Variable& x, const Variable& target) const {
  return multilabel_soft_margin_loss(x, target, constant(o.weight), o.reduction);
}

}  // namespace tessera::nn

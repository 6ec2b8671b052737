#include "autograd/gradients.h"

#include "autograd/graph/leaf_accumulation.h"
#include "autograd/graph/node.h"

namespace tessera {
namespace {

/// The leaf that `input` is, if its object still exists.
LeafNode* leaf_of(const Node& node, size_t input) {
  LeafNode* const leaf = node.edges[input].node ? node.edges[input].node->as_leaf() : nullptr;
  return leaf && leaf->leaf ? leaf : nullptr;
}

/// Whether no other input of the node leads to the same node: a rule that writes the first gradient of a leaf
/// must not overwrite another.
bool is_only_edge_to_target(const Node& node, size_t input) {
  for (size_t i = 0; i < node.edges.size(); ++i)
    if (i != input && node.edges[i].node == node.edges[input].node) return false;
  return true;
}

/// Whether a kernel that computes in `dtype` writes a result of `kept`.
bool kernels_write(DType kept, DType dtype) {
  return kept == dtype || (kept == f32 && size_of(dtype) == 2);
}

}  // namespace

/// The leaf's gradient, or its buffer for the first one, and keeps the leaf locked; null where the rule
/// cannot write there, and while another thread does.
const Tensor* Wanted::leaf_target(size_t input, DType dtype) const {
  Entry& entry = (*entries_)[input];
  if (!entry.rule_may_write_leaf) return nullptr;
  LeafNode* const leaf = leaf_of(*node_, input);
  if (!leaf) return nullptr;
  std::unique_lock lock(leaf->accumulation_mutex, std::try_to_lock);
  if (!lock) return nullptr;
  const Tensor* tensor = gradient_to_add_to(*leaf->leaf);
  const bool add = tensor != nullptr;
  if (!add && is_only_edge_to_target(*node_, input)) tensor = empty_gradient_buffer(*leaf->leaf);
  if (!tensor || !tensor->is_contiguous() || !kernels_write(tensor->dtype(), dtype)) return nullptr;
  (add ? entry.added_to_leaf : entry.written_to_leaf) = true;
  locks_.push_back(std::move(lock));
  return tensor;
}

GradientTarget Wanted::target(size_t input, const Shape& shape, DType dtype, Device device) const {
  if (const Tensor* leaf = leaf_target(input, dtype)) return {*leaf, (*entries_)[input].added_to_leaf};
  const DType kept = this->dtype(input, dtype);
  return {Tensor::empty(shape, kernels_write(kept, dtype) ? kept : dtype, device), false};
}

DType Wanted::dtype(size_t input, DType own) const {
  const LeafNode* leaf = (*entries_)[input].wanted ? leaf_of(*node_, input) : nullptr;
  return leaf ? leaf->leaf->grad_dtype : own;
}

}  // namespace tessera

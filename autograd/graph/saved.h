#pragma once  // not in tessera.h

#include <array>
#include <memory>

#include "autograd/graph/inline_vector.h"
#include "autograd/graph/saving_policy.h"
#include "autograd/variable.h"

namespace tessera {

/// Declares output `output` of the operation itself as saved.
struct SavedOutput {
  int output;  ///< the index of the output
};
/// The same, in a call of `saved`.
inline SavedOutput saved_output(int output = 0) {
  return {output};
}

/// One declared value: an input or another Variable, a plain Tensor, or an output of the operation itself.
struct SavedItem {
  Variable variable;  ///< undefined unless a Variable is declared
  Tensor tensor;      ///< undefined unless a Tensor is declared
  int output = -1;    ///< the index of an output of the operation itself; -1 for none
  SavedItem() = default;
  /// Declares a Variable, a Tensor, or an output of the operation itself.
  /// @{
  SavedItem(const Variable& x) : variable(x) {}
  SavedItem(const Tensor& x) : tensor(x) {}
  SavedItem(SavedOutput x) : output(x.output) {}
  /// @}
};

/// Declares what a rule reads: `saved(x, saved_output(0), statistics)`. Stored only when a graph is recorded.
template <class... Items>
std::array<SavedItem, sizeof...(Items)> saved(const Items&... items) {
  return {SavedItem(items)...};
}

/// Declares `x` only where the rule reads it: `saved(saved_if(b.requires_grad(), a), ...)`; undefined
/// otherwise.
inline SavedItem saved_if(bool needed, const Variable& x) {
  return needed ? SavedItem(x) : SavedItem();
}

/// One value saved for a rule: held, or a source that produces it (autograd/graph/saving_policy.h); of a
/// parameter the Variable. With its version at that time and its history.
class SavedValue {
 public:
  SavedValue() = default;
  /// Saves `item` as the thread's saving policy decides; `outputs` are the operation's results.
  SavedValue(const char* op, const SavedItem& item, std::span<const Tensor> outputs);

  /// The saved tensor. Throws AutogradError naming `op` when it was changed in place or released.
  Tensor tensor(const char* op) const;
  /// The saved tensor with its history; `owner` is the node that computed the outputs.
  Variable variable(const char* op, const intrusive_ptr<Node>& owner) const;
  /// Frees the value, which cannot be read again.
  void release();
  /// Drops what a source produced and can produce again (`ValueSource::drop_produced`).
  void drop_produced() {
    if (source_) source_->drop_produced();
  }
  /// Whether a defined value was saved; also after its release.
  bool was_defined() const { return !undefined_; }
  /// Bytes of the saved tensor: 0 for parameters and values that a source produces.
  int64_t nbytes() const { return tensor_.defined() ? tensor_.nbytes() : 0; }
  /// The storage that it keeps alive; null for parameters and values that a source produces.
  const Storage* storage() const { return tensor_.defined() ? tensor_.storage().get() : nullptr; }

 private:
  Tensor tensor_;
  intrusive_ptr<VariableImpl> parameter_;
  std::shared_ptr<ValueSource> source_;
  Edge history_;
  int output_ = -1;
  bool undefined_ = false;
  bool released_ = false;
  bool requires_grad_ = false;
  uint64_t version_ = 0;
};

/// Whether `x` is contiguous and the only tensor on its storage, which has bytes of its own.
bool is_only_handle(const Tensor& x);

/// What an operation declared to `record`, as its rule reads it.
class Saved {
 public:
  /// The saved values of `node`, which outlives this object. `retained`: the rule may run again, so `release`
  /// frees nothing.
  Saved(Node& node, bool retained) : node_(&node), retained_(retained) {}
  /// Value `i` with its history, so that a rule written with differentiable functions can itself be
  /// differentiated.
  Variable operator[](size_t i) const;
  /// Value `i` without its history.
  Tensor tensor(size_t i) const;
  /// Whether value `i` is defined. Reads it as `tensor` does.
  bool defined(size_t i) const;
  /// Releases value `i` before the rule ends, unless the graph is retained.
  void release(size_t i) const;
  /// Value `i` without its history, released as by `release`. If `is_only_handle` then holds for it, nothing
  /// reads it later, and the rule may write its result over it.
  Tensor take(size_t i) const;

 private:
  Node* node_;
  bool retained_;
};

}  // namespace tessera

#pragma once

#include <array>
#include <functional>
#include <memory>

#include "autograd/inline_vector.h"
#include "autograd/variable.h"

namespace tessera {

/// A saved value in another form (on disk, compressed, to be recomputed); gives the numbers back on request.
class Packed {
 public:
  virtual ~Packed() = default;
  /// Same shape and dtype as what was packed.
  virtual Tensor unpack() = 0;
  /// The node no longer needs it.
  virtual void release() {}
  /// The node's rule has run and may run again: what `unpack` computed need not be kept until then.
  virtual void drop_unpacked() {}
};

/// Whether this thread's saved values go through a hook now.
bool saved_values_are_hooked();

/// Turns a value that is about to be saved into something else; null saves it as it is. Parameters are never
/// offered. A hook that changes the value in place is an AutogradError: others read it too.
using PackHook = std::function<std::shared_ptr<Packed>(const char* op, const Tensor& value)>;

/// While it lives, this thread's saved values go through `hook` (the innermost scope's alone).
class SavedValueHooks {
 public:
  explicit SavedValueHooks(PackHook hook);
  ~SavedValueHooks();
  SavedValueHooks(const SavedValueHooks&) = delete;
  SavedValueHooks& operator=(const SavedValueHooks&) = delete;

 private:
  PackHook hook_;
  const PackHook* outer_;
};

/// Says "output `slot` of this operation" among what is saved.
struct SavedOutput {
  int slot;
};
inline SavedOutput saved_output(int slot = 0) {
  return {slot};
}

/// One declared value: an input or another Variable, a plain Tensor, or an output of the operation itself.
struct SavedItem {
  Variable variable;
  Tensor tensor;
  int output = -1;
  SavedItem() = default;
  SavedItem(const Variable& x) : variable(x) {}
  SavedItem(const Tensor& x) : tensor(x) {}
  SavedItem(SavedOutput x) : output(x.slot) {}
};

/// Declares what a rule will need: `saved(x, saved_output(0), statistics)`. Taken only when a graph is
/// recorded.
template <class... Items>
std::array<SavedItem, sizeof...(Items)> saved(const Items&... items) {
  return {SavedItem(items)...};
}

/// Declares `x` only where the rule will want it: `saved(saved_if(b.requires_grad(), a), ...)`; undefined
/// otherwise.
inline SavedItem saved_if(bool needed, const Variable& x) {
  return needed ? SavedItem(x) : SavedItem();
}

/// One value kept for a rule, with its version at the time and its history.
class SavedValue {
 public:
  SavedValue() = default;
  /// Takes `item`; `outputs` are the operation's results. Offers it to the thread's pack hook.
  SavedValue(const char* op, const SavedItem& item, std::span<const Tensor> outputs);

  /// The numbers now. Throws AutogradError naming `op` when they were changed in place or released.
  Tensor tensor(const char* op) const;
  /// The numbers and their history, `owner` being the node that computed the outputs.
  Variable variable(const char* op, const intrusive_ptr<Node>& owner) const;
  void release();
  void drop_unpacked() {
    if (packed_) packed_->drop_unpacked();
  }
  /// Whether there was anything to save; also after its release.
  bool holds_something() const { return !undefined_; }
  /// Bytes that saving it holds: 0 for parameters and packed values.
  int64_t nbytes() const { return tensor_.defined() ? tensor_.nbytes() : 0; }
  /// The storage that it keeps alive; null for parameters and packed values.
  const Storage* storage() const { return tensor_.defined() ? tensor_.storage().get() : nullptr; }

 private:
  Tensor tensor_;
  intrusive_ptr<VariableImpl> parameter_;
  std::shared_ptr<Packed> packed_;
  Edge history_;
  int output_ = -1;
  bool undefined_ = false;
  bool released_ = false;
  bool requires_grad_ = false;
  uint64_t version_ = 0;
};

/// Whether `x` is all that is left of its contiguous numbers.
bool is_only_handle(const Tensor& x);

/// A rule's view of what its operation declared to `record`.
class Saved {
 public:
  Saved(Node& node, bool retained) : node_(&node), retained_(retained) {}
  /// Value `i` with its history, so that a rule written with differentiable functions can itself be
  /// differentiated.
  Variable operator[](size_t i) const;
  /// Its numbers only.
  Tensor tensor(size_t i) const;
  bool defined(size_t i) const;
  /// Gives value `i` up before the rule ends, unless the graph is retained.
  void release(size_t i) const;
  /// The numbers of value `i`, given up as by `release`. Where `is_only_handle` then holds for them, nobody
  /// will read them again, and a rule may write its result over them.
  Tensor take(size_t i) const;

 private:
  Node* node_;
  bool retained_;
};

}  // namespace tessera

#pragma once

#include <optional>
#include <vector>

#include "autograd/inline_vector.h"
#include "autograd/variable.h"

namespace tessera {

/// The gradients that a rule returns: one per input of its operation, undefined where none was wanted.
class Gradients {
 public:
  Gradients() = default;
  Gradients(std::initializer_list<Variable> gradients) : list_(gradients) {}
  explicit Gradients(size_t inputs) : list_(inputs) {}
  explicit Gradients(const std::vector<Variable>& gradients) {
    for (const Variable& gradient : gradients) list_.push_back(gradient);
  }
  size_t size() const { return list_.size(); }
  Variable& operator[](size_t i) { return list_[i]; }

 private:
  InlineVector<Variable, 3> list_;
};

/// What arrived at a node: the summed gradient of each of its outputs; undefined for an output that nothing
/// used.
class Incoming {
 public:
  explicit Incoming(const InlineVector<Variable, 1>& gradients) : list_(&gradients) {}
  size_t size() const { return list_->size(); }
  const Variable& operator[](size_t i) const { return (*list_)[i]; }
  bool defined(size_t i) const { return (*list_)[i].defined(); }

 private:
  const InlineVector<Variable, 1>* list_;
};

/// Which inputs need a gradient in this pass, and where a rule may add one in place.
class Wanted {
 public:
  struct Entry {
    bool wanted = false;
    bool accumulated = false;
    const Tensor* buffer = nullptr;
    const Tensor* home = nullptr;
    std::optional<DType> leaf_dtype;
  };
  explicit Wanted(InlineVector<Entry, 3>& entries, bool retained = false)
      : entries_(&entries), retained_(retained) {}

  bool operator[](size_t input) const { return (*entries_)[input].wanted; }
  /// The gradient buffer of the leaf at `input` when its gradient may be added there (C += A B, beta = 1);
  /// else null. A rule that did so calls `mark_accumulated(input)` and returns an undefined gradient for it.
  const Tensor* buffer(size_t input) const { return (*entries_)[input].buffer; }
  /// Where the first gradient of the leaf at `input` belongs: a rule may write it there, over whatever is
  /// there, and return it; else null. There is never a buffer too.
  const Tensor* home(size_t input) const { return (*entries_)[input].home; }
  /// The dtype that the gradient of `input` is kept in: its leaf's, or `own` where it is not a leaf. A rule
  /// that sums many numbers into one (a weight's gradient) gives them in this dtype, unrounded on the way.
  DType dtype(size_t input, DType own) const { return (*entries_)[input].leaf_dtype.value_or(own); }
  void mark_accumulated(size_t input) const { (*entries_)[input].accumulated = true; }
  /// Whether the rule may be asked again with what is saved and what arrived.
  bool retained() const { return retained_; }

 private:
  InlineVector<Entry, 3>* entries_;
  bool retained_;
};

}  // namespace tessera

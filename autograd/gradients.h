#pragma once  // not in tessera.h

#include <mutex>
#include <vector>

#include "autograd/graph/inline_vector.h"
#include "autograd/variable.h"

namespace tessera {

class Node;

/// The gradients that a rule returns: one per input of its operation, undefined where none was wanted.
class Gradients {
 public:
  Gradients() = default;
  /// The given gradients, one per input.
  Gradients(std::initializer_list<Variable> gradients) : list_(gradients) {}
  /// An undefined gradient for each of `inputs` inputs, to be set by index.
  explicit Gradients(size_t inputs) : list_(inputs) {}
  /// The given gradients, one per input.
  explicit Gradients(const std::vector<Variable>& gradients) {
    for (const Variable& gradient : gradients) list_.push_back(gradient);
  }
  /// The number of inputs.
  size_t size() const { return list_.size(); }
  /// The gradient of input `i`.
  Variable& operator[](size_t i) { return list_[i]; }

 private:
  InlineVector<Variable, 3> list_;
};

/// grad_outputs: what arrived at a node, the summed gradient of each of its outputs; undefined for an output
/// that nothing used.
class Incoming {
 public:
  /// Refers to `gradients`, one per output, which must outlive it.
  explicit Incoming(const InlineVector<Variable, 1>& gradients) : list_(&gradients) {}
  /// The number of outputs.
  size_t size() const { return list_->size(); }
  /// The gradient of output `i`.
  const Variable& operator[](size_t i) const { return (*list_)[i]; }
  /// Whether output `i` has a gradient.
  bool defined(size_t i) const { return (*list_)[i].defined(); }

 private:
  const InlineVector<Variable, 1>* list_;
};

/// Memory for a gradient that a rule computes, contiguous.
struct GradientTarget {
  Tensor tensor;  ///< of the shape that the rule asked for
  /// The tensor holds the gradient so far, to which the rule adds (C += A B, beta = 1); else the rule writes
  /// every element.
  bool add = false;
};

/// needs_input_grad: which inputs need a gradient in this pass, and memory for those that a rule can write
/// directly.
class Wanted {
 public:
  /// One input of the operation.
  struct Entry {
    bool wanted = false;               ///< the rule computes the gradient of this input
    bool rule_may_write_leaf = false;  ///< the input is a leaf; gradients are added to its own as they arrive
    bool added_to_leaf = false;        ///< set by `target`: the rule adds to the gradient that the leaf has
    bool written_to_leaf = false;      ///< set by `target`: the rule writes the leaf's first gradient
  };
  /// Refers to `entries`, one per input of `node`. `retained`: the rule may run again.
  Wanted(const Node& node, InlineVector<Entry, 3>& entries, bool retained = false)
      : node_(&node), entries_(&entries), retained_(retained) {}

  /// Whether `input` needs a gradient.
  bool operator[](size_t input) const { return (*entries_)[input].wanted; }
  /// Memory for the gradient of `input`, which the rule then returns: the leaf's own gradient where that can
  /// be written, else a new tensor. It has `dtype`, or f32 where `dtype` is a half type and the gradient is
  /// kept in f32: sums of many terms (a weight's gradient) are then not rounded in between. Not for a rule
  /// that is recorded (grad_mode()).
  GradientTarget target(size_t input, const Shape& shape, DType dtype, Device device) const;
  /// The dtype that the gradient of `input` is kept in: its leaf's, or `own` where it is not a leaf.
  DType dtype(size_t input, DType own) const;
  /// Whether the rule may run again on the same saved values and grad_outputs.
  bool retained() const { return retained_; }

 private:
  const Tensor* leaf_target(size_t input, DType dtype) const;

  const Node* node_;
  InlineVector<Entry, 3>* entries_;
  bool retained_;
  /// Of the leaves: the rule writes their gradients. Held until this object's end.
  mutable InlineVector<std::unique_lock<std::recursive_mutex>, 2> locks_;
};

}  // namespace tessera

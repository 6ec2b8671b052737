#pragma once

#include <span>
#include <vector>

#include "autograd/variable.h"

namespace tessera {

struct PendingNode;

/// One backward in two passes: first the gradients of chosen inputs, later all others. A node's rule runs
/// twice, for disjoint inputs. The gradients have the bits of a single backward. For zero-bubble pipelines
/// (Qi et al., "Zero Bubble Pipeline Parallelism", 2023).
class SplitBackward {
 public:
  /// One gradient per root; empty for scalar roots.
  SplitBackward(std::span<const Variable> roots, std::span<const Variable> gradients = {});
  ~SplitBackward();

  /// The gradients of `inputs`; undefined for an input on which no root depends.
  std::vector<Variable> input_gradients(std::span<const Variable> inputs);
  /// Adds the gradients of all remaining leaves, and frees the graph.
  void weight_gradients();

 private:
  std::vector<Variable> roots_;
  std::vector<Variable> gradients_;
  std::vector<PendingNode> pending_;
};

}  // namespace tessera

#pragma once

#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "autograd/graph/saving_policy.h"
#include "autograd/variable.h"

namespace tessera {

/// A function of Variables that can be run again; it may read parameters, modules and the random context.
using Segment = std::function<std::vector<Variable>(std::span<const Variable> inputs)>;

/// Options of `checkpoint_segment`.
struct CheckpointOptions {
  /// Operations whose results are kept beside the inputs, by the name under which they are recorded
  /// ("self_attention": its output and log-sum-exp). The rerun does not compute them. Only operations that
  /// pass `record` a function to call can be kept (record.h): products and attention. A name that is neither
  /// one of the library's nor of an operation that the segment runs is a ValueError.
  std::vector<std::string> keep = {};
};

/// Runs `segment` and keeps only its inputs: the values that its operations save are dropped. The first of
/// them that backward reads runs the segment again (same random numbers of the thread's RandomContext, and
/// modules in the mode, training or evaluation, that they had; a generator of another kind that the segment
/// captures, such as a std::mt19937, goes on and gives wrong gradients), up to the last value needed. After a
/// backward with `retain_graph` the values are dropped again. Losses and gradients have the same bits as
/// without. Segments nest; each keeps what its own options name. Backward throws AutogradError naming `name`
/// when the rerun saves values of other operations, shapes, dtypes or counts; the same operations on other
/// values, such as those of a captured number that has changed, are not found, and give wrong gradients. What
/// a segment changes beside its results is changed again by the rerun, unless it asks `is_recomputing`
/// (first_run.h; Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).
std::vector<Variable> checkpoint_segment(const std::string& name, Segment segment,
                                         std::vector<Variable> inputs, const CheckpointOptions& options = {});

/// While it lives, `policy` decides what is held of the inputs of segments that this thread checkpoints, such
/// as a copy elsewhere (autograd/recompute/stores.h). Of nested scopes the innermost decides; inputs of a
/// segment within another one belong to the outer one's rerun, and are never asked about.
class CheckpointInputsScope {
 public:
  /// With an empty `policy` (`nullptr`) inputs are held, as outside of scopes.
  explicit CheckpointInputsScope(SavingPolicy policy);
  ~CheckpointInputsScope();
  CheckpointInputsScope(const CheckpointInputsScope&) = delete;
  CheckpointInputsScope& operator=(const CheckpointInputsScope&) = delete;

 private:
  SavingPolicy policy_;
  const SavingPolicy* outer_;
};

/// The same for a function from Variables to one Variable: `y = checkpoint([&](const Variable& x) { return
/// block(x); }, x)`.
template <class Function, class... Inputs>
requires std::invocable<Function&, const Inputs&...> &&(std::convertible_to<Inputs, Variable>&&...)Variable
    checkpoint(Function function, const Inputs&... inputs) {
  Segment segment = [function](std::span<const Variable> list) mutable -> std::vector<Variable> {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::vector<Variable>{function(list[I]...)};
    }
    (std::index_sequence_for<Inputs...>{});
  };
  return checkpoint_segment("checkpoint", std::move(segment), {Variable(inputs)...})[0];
}

}  // namespace tessera

// backward(), grad() and SplitBackward, in terms of the engine.

#include "autograd/engine.h"
#include "autograd/graph/leaf_accumulation.h"
#include "autograd/split_backward.h"
#include "tensor/ops/creation/creation.h"

namespace tessera {
namespace {

/// The gradient with which a backward starts at `root`: `given`, or 1 for a scalar.
Variable root_gradient(const Variable& root, const Variable& given, const char* where) {
  if (!given.defined()) {
    require<AutogradError>(root.numel() == 1, where, ": a gradient is implied only for a scalar, got ", root,
                           "; pass a gradient of that shape, or reduce it (sum, mean) first");
    return ops::ones(root.shape(), root.dtype(), root.device());
  }
  require<ShapeError>(given.shape() == root.shape(), where, ": expected a gradient of shape ", root.shape(),
                      ", got ", given.shape());
  require<DTypeError>(given.dtype() == root.dtype(), where, ": expected a gradient of ", root.dtype(),
                      ", got ", given.dtype());
  // A number of the host, such as a loss scale, begins a backward on a device too; nothing is uploaded.
  if (given.device().is_cpu() && root.device().is_cuda() && given.numel() == 1 && !given.requires_grad())
    return ops::full(root.shape(), given.value().to(f64).item(), root.dtype(), root.device());
  return given;
}

void seed_roots(Engine& engine, std::span<const Variable> roots, std::span<const Variable> gradients,
                const char* where) {
  require<ValueError>(!roots.empty(), where, ": expected at least one root");
  require<ValueError>(gradients.empty() || gradients.size() == roots.size(), where, ": expected ",
                      roots.size(), " gradients, one per root, got ", gradients.size());
  for (size_t i = 0; i < roots.size(); ++i) {
    require<AutogradError>(roots[i].requires_grad(), where, ": ", roots[i],
                           " depends on nothing that requires a gradient (a constant, or computed under "
                           "NoGrad); compute it from "
                           "parameters or from Variable::leaf(tensor)");
    engine.seed(gradient_edge(roots[i]),
                root_gradient(roots[i], gradients.empty() ? Variable() : gradients[i], where));
  }
}

/// Adds `gradient` to the one that a computed input of `backward` has. The engine did so already for one that
/// retains its gradient.
void add_to_computed(const Variable& x, Variable gradient, bool create_graph) {
  VariableImpl& impl = *x.impl();
  if (!gradient.defined() || impl.retains_grad) return;
  if (!impl.gradient && !create_graph && !is_only_handle(gradient)) gradient = gradient.value().clone();
  if (impl.gradient) gradient = sum_gradients(Variable(impl.gradient), gradient, create_graph);
  impl.gradient = gradient.impl();
}

}  // namespace

void backward(std::span<const Variable> roots, std::span<const Variable> gradients, BackwardOptions options,
              std::span<const Variable> inputs) {
  std::vector<Variable> leaves, computed;
  for (const Variable& input : inputs) {
    require<AutogradError>(input.requires_grad(), "backward: the input ", input, " requires no gradient");
    (input.is_leaf() ? leaves : computed).push_back(input);
  }
  Engine engine(options);
  seed_roots(engine, roots, gradients, "backward");
  if (computed.empty() || !leaves.empty()) engine.accumulate_into(leaves);
  std::vector<Variable> results(computed.size());
  for (size_t i = 0; i < computed.size(); ++i) engine.capture(computed[i], i);
  engine.run(&results);
  for (size_t i = 0; i < computed.size(); ++i)
    add_to_computed(computed[i], std::move(results[i]), options.create_graph);
}

std::vector<Variable> grad(std::span<const Variable> roots, std::span<const Variable> inputs,
                           std::span<const Variable> gradients, GradOptions options) {
  require<ValueError>(!inputs.empty(), "grad: expected at least one input");
  Engine engine({.retain_graph = options.retain_graph, .create_graph = options.create_graph});
  seed_roots(engine, roots, gradients, "grad");
  std::vector<Variable> results(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    require<AutogradError>(inputs[i].requires_grad(), "grad: input ", i, ", ", inputs[i],
                           ", requires no gradient");
    engine.capture(inputs[i], i);
  }
  engine.run(&results);
  if (!options.allow_unused)
    for (size_t i = 0; i < inputs.size(); ++i)
      require<AutogradError>(results[i].defined(), "grad: no root depends on input ", i, ", ", inputs[i],
                             "; pass {.allow_unused = true} for an undefined gradient");
  return results;
}

std::vector<Variable> grad(const Variable& root, std::initializer_list<Variable> inputs,
                           GradOptions options) {
  return grad({&root, 1}, std::span<const Variable>(inputs.begin(), inputs.size()), {}, options);
}

void Variable::backward(BackwardOptions options) const {
  tessera::backward({this, 1}, {}, options);
}

void Variable::backward(const Variable& gradient, BackwardOptions options) const {
  tessera::backward({this, 1}, {&gradient, 1}, options);
}

SplitBackward::SplitBackward(std::span<const Variable> roots, std::span<const Variable> gradients)
    : roots_(roots.begin(), roots.end()), gradients_(gradients.begin(), gradients.end()) {}

SplitBackward::~SplitBackward() = default;

std::vector<Variable> SplitBackward::input_gradients(std::span<const Variable> inputs) {
  Engine engine({});
  seed_roots(engine, roots_, gradients_, "SplitBackward");
  std::vector<Variable> results(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) engine.capture(inputs[i], i);
  engine.keep_pending(&pending_);
  engine.run(&results);
  if (!engine.reaches_wanted()) return results;
  roots_.clear();
  gradients_.clear();
  return results;
}

void SplitBackward::weight_gradients() {
  Engine engine({});
  if (!roots_.empty()) seed_roots(engine, roots_, gradients_, "SplitBackward");
  for (PendingNode& pending : pending_) engine.seed(std::move(pending));
  pending_.clear();
  roots_.clear();
  gradients_.clear();
  engine.accumulate_into({});
  engine.run();
}

}  // namespace tessera

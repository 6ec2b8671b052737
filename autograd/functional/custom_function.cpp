// A custom function is one node of the graph. It holds the context of its call; the values that the forward
// saved are the node's, as those of every operation.

#include "autograd/functional/custom_function.h"

#include <cxxabi.h>

#include <cstdlib>

#include "autograd/autocast/autocast.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/record.h"
#include "tensor/profile/span.h"

namespace tessera {

/// While it lives, the context reads the saved values of a running backward.
class ContextScope {
 public:
  ContextScope(AutogradContext& ctx, const Saved& saved, const Wanted& wanted)
      : ctx_(ctx),
        outer_saved_(std::exchange(ctx.saved_, &saved)),
        outer_wanted_(std::exchange(ctx.wanted_, &wanted)) {}
  ~ContextScope() {
    ctx_.saved_ = outer_saved_;
    ctx_.wanted_ = outer_wanted_;
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  AutogradContext& ctx_;
  const Saved* outer_saved_;
  const Wanted* outer_wanted_;
};

/// A recorded call of a custom function.
class CustomNode final : public Node {
 public:
  explicit CustomNode(const detail::CustomCall& call);
  Gradients run(const Incoming& incoming, const Wanted& wanted) override;

  /// The context of the call.
  AutogradContext& context() { return context_; }
  /// Whether the forward marked this output as non-differentiable. Throws ValueError for a marked Variable
  /// that is no output.
  std::vector<bool> non_differentiable(std::span<const Variable> outputs) const;
  /// What the forward saved: outputs are declared as such.
  std::vector<SavedItem> take_saved(std::span<const Variable> outputs, const std::vector<bool>& constant);
  /// Stores what backward needs of the outputs, and the function itself.
  void complete(std::span<const Tensor> outputs, detail::CustomBackward backward);

 private:
  std::vector<Variable> grad_outputs(const Incoming& incoming) const;
  Gradients by_input(std::vector<Variable> gradients, const Wanted& wanted) const;
  Variable once_differentiable_result(const Variable& gradient, std::span<const Variable> grad_outputs) const;

  AutogradContext context_;
  detail::CustomBackward backward_;
  std::vector<Device> devices_;        // of the outputs
  DType autocast_ = autocast_dtype();  // of the forward
  bool once_differentiable_;
};

CustomNode::CustomNode(const detail::CustomCall& call)
    : Node(call.name), once_differentiable_(call.once_differentiable) {
  context_.input_of_argument_ = call.input_of_argument;
  for (const Variable& input : call.inputs)
    context_.requires_grad_.push_back(grad_mode() && input.requires_grad());
}

std::vector<bool> CustomNode::non_differentiable(std::span<const Variable> outputs) const {
  std::vector<bool> constant(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) constant[i] = !is_floating(outputs[i].dtype());
  for (size_t m = 0; m < context_.non_differentiable_.size(); ++m) {
    bool found = false;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].is_same(context_.non_differentiable_[m])) constant[i] = found = true;
    require<ValueError>(found, "mark_non_differentiable: value ", m, ", ", context_.non_differentiable_[m],
                        ", is not an output of '", name(), "'; mark the Variable that forward returns");
  }
  return constant;
}

namespace {

/// Whether both show the same elements of the same memory.
bool is_same_view(const Tensor& a, const Tensor& b) {
  return a.shares_storage(b) && a.offset() == b.offset() && a.dtype() == b.dtype() &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

}  // namespace

std::vector<SavedItem> CustomNode::take_saved(std::span<const Variable> outputs,
                                              const std::vector<bool>& constant) {
  std::vector<SavedItem> items;
  context_.saved_count_ = context_.to_save_.size();
  for (const Variable& value : std::exchange(context_.to_save_, {})) {
    SavedItem item(value);
    // An output without its history would be a constant in second derivatives; an input has its own.
    if (value.defined() && !value.requires_grad())
      for (size_t i = 0; i < outputs.size(); ++i)
        if (!constant[i] && is_same_view(value.value(), outputs[i].value()))
          item = SavedItem(saved_output(static_cast<int>(i)));
    items.push_back(std::move(item));
  }
  context_.non_differentiable_.clear();
  return items;
}

void CustomNode::complete(std::span<const Tensor> outputs, detail::CustomBackward backward) {
  backward_ = std::move(backward);
  for (const Tensor& output : outputs) devices_.push_back(output.device());
}

std::vector<Variable> CustomNode::grad_outputs(const Incoming& incoming) const {
  std::vector<Variable> list;
  list.reserve(incoming.size());
  for (size_t i = 0; i < incoming.size(); ++i) {
    if (incoming.defined(i) || !context_.materialize_grads_)
      list.push_back(incoming[i]);
    else
      list.push_back(Tensor::zeros(outputs[i].shape, outputs[i].dtype, devices_[i]));
  }
  return list;
}

Gradients CustomNode::run(const Incoming& incoming, const Wanted& wanted) {
  const AutocastScope forward_autocast(autocast_);
  const Saved values(*this, wanted.retained());
  const ContextScope scope(context_, values, wanted);
  std::vector<Variable> list = grad_outputs(incoming);
  if (!once_differentiable_ || !grad_mode()) return by_input(backward_(context_, std::move(list)), wanted);
  std::vector<Variable> results;
  {
    NoGrad no_grad;
    results = backward_(context_, list);
  }
  Gradients gradients = by_input(std::move(results), wanted);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) gradients[i] = once_differentiable_result(gradients[i], list);
  return gradients;
}

/// The gradients of the inputs from those of the arguments, in the dtypes of the values they belong to.
Gradients CustomNode::by_input(std::vector<Variable> gradients, const Wanted& wanted) const {
  const std::vector<int>& inputs = context_.input_of_argument_;
  require<AutogradError>(gradients.size() == inputs.size(), "backward of '", name(), "' returned ",
                         gradients.size(), " gradients for ", inputs.size(),
                         " arguments of its forward; return one for each, undefined (Variable()) where none "
                         "is needed");
  Gradients by_input(edges.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Variable& gradient = gradients[i];
    if (!gradient.defined()) continue;
    require<AutogradError>(inputs[i] >= 0, "backward of '", name(), "' returned a gradient for argument ", i,
                           ", which is not a Variable; return an undefined one (Variable()) there");
    const auto input = static_cast<size_t>(inputs[i]);
    if (!wanted[input]) continue;
    const Edge& edge = edges[input];
    const bool is_leaf = edge.node->as_leaf() != nullptr;  // its gradient is converted where it is added
    if (!is_leaf && is_floating(gradient.dtype()))
      gradient = cast(gradient, edge.node->outputs[edge.output].dtype);
    by_input[input] = std::move(gradient);
  }
  return by_input;
}

/// `gradient` with a history that throws in backward.
Variable CustomNode::once_differentiable_result(const Variable& gradient,
                                                std::span<const Variable> grad_outputs) const {
  const auto rule = [function = name()](Saved&, const Incoming&, const Wanted&) -> Gradients {
    throw AutogradError(text("'", function,
                             "' is differentiable once only, and its backward is differentiated; write the "
                             "backward with differentiable functions and leave out once_differentiable"));
  };
  intrusive_ptr<Node> node(new RuleNode("once_differentiable", rule));
  for (const Edge& edge : edges) node->edges.push_back(edge);
  for (const Variable& grad_output : grad_outputs) node->edges.push_back(gradient_edge(grad_output));
  node->outputs.push_back({gradient.shape(), gradient.dtype()});
  Variable result(gradient.value());
  result.impl()->requires_grad = true;
  result.impl()->is_leaf = false;
  result.impl()->history = Edge(std::move(node), 0);
  return result;
}

namespace detail {
namespace {

std::vector<uint64_t> versions_of(std::span<const Variable> inputs) {
  std::vector<uint64_t> versions;
  for (const Variable& input : inputs) versions.push_back(input.defined() ? input.value().version() : 0);
  return versions;
}

void require_unchanged(const CustomCall& call, const std::vector<uint64_t>& versions) {
  for (size_t i = 0; i < call.inputs.size(); ++i)
    require<AutogradError>(
        !call.inputs[i].defined() || call.inputs[i].value().version() == versions[i], "forward of '",
        call.name, "': it changed input ", i, ", ", call.inputs[i],
        ", in place, which its graph does not record; change a clone, or write the change as an "
        "operation by record_in_place");
}

std::vector<Tensor> tensors_of(const char* name, std::span<const Variable> outputs) {
  require<ValueError>(!outputs.empty(), "forward of '", name, "': expected at least one output, got none");
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    require<ValueError>(outputs[i].defined(), "forward of '", name, "': output ", i, " is undefined");
    tensors.push_back(outputs[i].value());
    if (anomaly_mode() && grad_mode()) check_forward(name, tensors.back());
  }
  return tensors;
}

/// Gives results the layouts of samples that forward made, and marks those in the memory of an input.
void finish_results(const CustomCall& call, std::span<const Variable> forward_results,
                    std::span<const Variable> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    results[i].impl()->samples = forward_results[i].impl()->samples;
    for (const Variable& input : call.inputs) {
      if (!input.defined() || !results[i].value().shares_storage(input.value())) continue;
      mark_as_view(results[i], input, ViewKind::of_custom_function);
      break;
    }
  }
}

}  // namespace

std::vector<Variable> call_custom(CustomCall call,
                                  FunctionRef<std::vector<Variable>(AutogradContext&)> forward,
                                  FunctionRef<CustomBackward()> backward) {
  const Inputs inputs(call.inputs);
  const bool recorded = inputs.recorded();
  const intrusive_ptr<CustomNode> node(new CustomNode(call));
  const std::vector<uint64_t> versions = versions_of(call.inputs);
  std::vector<Variable> outputs;
  {
    NoGrad no_grad;
    outputs = forward(node->context());
  }
  require_unchanged(call, versions);
  const std::vector<Tensor> tensors = tensors_of(call.name, outputs);
  const std::vector<bool> constant = node->non_differentiable(outputs);
  std::vector<Variable> results;
  if (recorded) {
    const std::vector<SavedItem> items = node->take_saved(outputs, constant);
    node->complete(tensors, backward());
    results = attach(intrusive_ptr<Node>(node.get()), tensors, inputs, items);
  } else {
    results.resize(tensors.size());
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (!recorded || constant[i]) results[i] = Variable(tensors[i]);
  finish_results(call, outputs, results);
  return results;
}

const char* class_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? demangled.get() : type.name();
  const size_t arguments = name.find('<');
  const size_t scope = name.rfind("::", arguments);
  if (scope != name.npos) name.erase(0, scope + 2);
  return intern(name).c_str();
}

}  // namespace detail
}  // namespace tessera

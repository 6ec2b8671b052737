#include "autograd/record.h"

#include "autograd/debug/anomaly.h"
#include "autograd/functional/batching.h"
#include "autograd/recompute/first_run.h"

namespace tessera {

bool Inputs::recorded() const {
  if (!grad_mode()) return false;
  for (const Variable& input : list_)
    if (input.requires_grad()) return true;
  return false;
}

namespace detail {

void link(Node& node, const Inputs& inputs, Device device) {
  node.edges.reserve(inputs.list().size());
  for (const Variable& input : inputs.list()) node.edges.push_back(gradient_edge(input));
  if (device.is_batched()) [[unlikely]]
    link_shared_inputs(node, inputs.list(), device.samples);
  if ((anomaly_mode() || profiling()) && !current_scope().empty()) [[unlikely]]
    node.module_name = &intern(current_scope());
}

void save_outputs(Node& node, std::span<const SavedItem> items, std::span<const Tensor> outputs) {
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].output >= 0) node.saved[i] = SavedValue(node.name(), items[i], outputs);
}

namespace {

Variable computed(const intrusive_ptr<Node>& node, Tensor value, int output) {
  Variable x(std::move(value));
  VariableImpl& impl = *x.impl();
  impl.requires_grad = true;
  impl.is_leaf = false;
  impl.history = Edge(node, output);
  return x;
}

}  // namespace

FirstRun* segment_that_keeps(const char* name) {
  FirstRun* const segment = current_first_run();
  return segment && segment->keeps(name) ? segment : nullptr;
}

std::vector<Tensor> kept_outputs(FirstRun& segment, const char* name,
                                 FunctionRef<std::vector<Tensor>()> compute) {
  return segment.outputs(name, compute);
}

void note_constant_operation(const char* name) {
  if (FirstRun* const segment = current_first_run()) segment->note_constant(name);
}

void save_inputs(Node& node, std::span<const SavedItem> saved) {
  node.saved.reserve(saved.size());
  for (const SavedItem& item : saved)
    if (item.output < 0)
      node.saved.emplace_back(node.name(), item, std::span<const Tensor>{});
    else
      node.saved.emplace_back();
}

Variable attach(intrusive_ptr<Node> node, Tensor output, const Inputs& inputs,
                std::span<const SavedItem> saved) {
  save_inputs(*node, saved);
  return attach_computed(std::move(node), std::move(output), inputs, saved);
}

std::vector<Variable> attach(intrusive_ptr<Node> node, std::span<const Tensor> outputs, const Inputs& inputs,
                             std::span<const SavedItem> saved) {
  save_inputs(*node, saved);
  return attach_computed(std::move(node), outputs, inputs, saved);
}

Variable attach_computed(intrusive_ptr<Node> node, Tensor output, const Inputs& inputs,
                         std::span<const SavedItem> saved) {
  if (!is_floating(output.dtype())) return Variable(std::move(output));
  link(*node, inputs, output.device());
  node->outputs.push_back({output.shape(), output.dtype()});
  save_outputs(*node, saved, {&output, 1});
  Variable result = computed(node, std::move(output), 0);
  propagate_layouts(inputs.list(), {&result, 1});
  return result;
}

std::vector<Variable> attach_computed(intrusive_ptr<Node> node, std::span<const Tensor> outputs,
                                      const Inputs& inputs, std::span<const SavedItem> saved) {
  link(*node, inputs, outputs.empty() ? cpu() : outputs[0].device());
  for (const Tensor& output : outputs) node->outputs.push_back({output.shape(), output.dtype()});
  save_outputs(*node, saved, outputs);
  std::vector<Variable> results;
  results.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    results.push_back(is_floating(outputs[i].dtype()) ? computed(node, outputs[i], static_cast<int>(i))
                                                      : Variable(outputs[i]));
  propagate_layouts(inputs.list(), results);
  return results;
}

}  // namespace detail
}  // namespace tessera

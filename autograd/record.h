#pragma once  // not in tessera.h

#include <concepts>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/gradients.h"
#include "autograd/graph/node.h"
#include "autograd/graph/saved.h"
#include "autograd/views/sample_layout.h"
#include "tensor/function_ref.h"

namespace tessera {

class FirstRun;

/// A node whose rule is any callable `Gradients(Saved&, const Incoming&, const Wanted&)`.
template <class Rule>
class RuleNode final : public Node {
 public:
  /// `name`: a string literal.
  RuleNode(const char* name, Rule rule) : Node(name), rule_(std::move(rule)) {}
  Gradients run(const Incoming& incoming, const Wanted& wanted) override {
    Saved values(*this, wanted.retained());
    return rule_(values, incoming, wanted);
  }

 private:
  Rule rule_;
};

/// The inputs of an operation, in the order of the gradients that its rule returns. Undefined ones are
/// allowed.
class Inputs {
 public:
  /// Refers to the Variables without copying the list, which must outlive this object.
  /// @{
  Inputs(std::initializer_list<Variable> inputs) : list_(inputs.begin(), inputs.size()) {}
  Inputs(const std::vector<Variable>& inputs) : list_(inputs) {}
  Inputs(std::span<const Variable> inputs) : list_(inputs) {}
  /// @}
  /// The inputs in order.
  std::span<const Variable> list() const { return list_; }
  /// Whether an operation on these inputs is recorded in this thread now.
  bool recorded() const;

 private:
  std::span<const Variable> list_;
};

namespace detail {
/// Links `node` to its inputs, stores the saved values and wraps the outputs.
std::vector<Variable> attach(intrusive_ptr<Node> node, std::span<const Tensor> outputs, const Inputs& inputs,
                             std::span<const SavedItem> saved);
Variable attach(intrusive_ptr<Node> node, Tensor output, const Inputs& inputs,
                std::span<const SavedItem> saved);
/// Stores those of `saved` that are inputs. The rerun of a checkpointed segment may end there.
void save_inputs(Node& node, std::span<const SavedItem> saved);
/// `attach` for a node whose inputs are saved.
Variable attach_computed(intrusive_ptr<Node> node, Tensor output, const Inputs& inputs,
                         std::span<const SavedItem> saved);
std::vector<Variable> attach_computed(intrusive_ptr<Node> node, std::span<const Tensor> outputs,
                                      const Inputs& inputs, std::span<const SavedItem> saved);
/// Marks `view` as a view of `base`, from which it was computed.
void mark_as_view(const Variable& view, const Variable& base, ViewKind kind = ViewKind::recorded);
void check_in_place(const char* name, const Variable& x, bool recorded);
/// Before an in-place change: links `node` to its inputs and saves them. Returns the edges to the base of
/// `x`, to the base of that, and so on.
std::vector<Edge> prepare_in_place(Node& node, const Variable& x, const Inputs& inputs,
                                   std::span<const SavedItem> saved);
/// After the change: makes `x` the result of `node`, and each of its `bases` the result of writing a view.
void attach_in_place(intrusive_ptr<Node> node, const Variable& x, std::vector<Edge> bases,
                     std::span<const SavedItem> saved);
/// Makes the edges of `node`, whose outputs are on `device`, to the nodes of its inputs.
void link(Node& node, const Inputs& inputs, Device device);
void save_outputs(Node& node, std::span<const SavedItem> items, std::span<const Tensor> outputs);
void check_forward(const char* name, const Tensor& output);
bool anomaly_mode();

/// Results that are not recorded.
inline Variable constants(Tensor output, const Inputs& inputs) {
  Variable result(std::move(output));
  propagate_layouts(inputs.list(), {&result, 1});
  return result;
}
inline std::vector<Variable> constants(const std::vector<Tensor>& outputs, const Inputs& inputs) {
  std::vector<Variable> results(outputs.begin(), outputs.end());
  propagate_layouts(inputs.list(), results);
  return results;
}

inline void check_forward_in_anomaly_mode(const char* name, const Tensor& output) {
  if (anomaly_mode()) [[unlikely]]
    check_forward(name, output);
}
inline void check_forward_in_anomaly_mode(const char* name, const std::vector<Tensor>& outputs) {
  for (const Tensor& output : outputs) check_forward_in_anomaly_mode(name, output);
}

/// The checkpointed segment that this thread runs, if it keeps the results of operations named `name`; else
/// null.
FirstRun* segment_that_keeps(const char* name);
/// The result of `compute`, or in a rerun of `segment` that of its first run.
std::vector<Tensor> kept_outputs(FirstRun& segment, const char* name,
                                 FunctionRef<std::vector<Tensor>()> compute);
/// Notes for the segment that this thread runs, if any, an operation on constants.
void note_constant_operation(const char* name);
/// The result of `compute`; in the rerun of a segment that keeps `name`, the result of the first run.
template <class Compute>
auto kept_or_computed(const char* name, Compute& compute) {
  FirstRun* const segment = segment_that_keeps(name);
  if (!segment) [[likely]]
    return compute();
  if constexpr (std::is_same_v<std::invoke_result_t<Compute&>, Tensor>)
    return kept_outputs(*segment, name, [&]() -> std::vector<Tensor> { return {compute()}; })[0];
  else
    return kept_outputs(*segment, name, compute);
}
}  // namespace detail

/// Wraps the result of a raw operation and records its backward rule if one of `inputs` requires a gradient
/// and grad mode is on. `rule` returns a gradient per input; the values that it reads of the forward are
/// declared by `saved`.
///
///     return record("gelu", ops::gelu(x.value()), {x}, saved(x), [](Saved& s, const Incoming& dy, const
///     Wanted&) {
///       return Gradients{gelu_backward(s[0], dy[0])};
///     });
///
/// `name` is a string literal. An output of integers or bools is a constant. A rule must not capture a
/// Variable instead of declaring it: captures are not checked for in-place changes, and no saving policy
/// applies to them.
template <size_t N, class Rule>
Variable record(const char* name, Tensor output, const Inputs& inputs, const std::array<SavedItem, N>& saved,
                Rule rule) {
  if (detail::anomaly_mode() && grad_mode()) [[unlikely]]
    detail::check_forward(name, output);
  if (!inputs.recorded()) return detail::constants(std::move(output), inputs);
  return detail::attach(intrusive_ptr<Node>(new RuleNode<Rule>(name, std::move(rule))), std::move(output),
                        inputs, saved);
}

/// The same for an operation of several outputs; `Incoming` then has an entry per output. Integer outputs
/// (indices) become constants.
template <size_t N, class Rule>
std::vector<Variable> record(const char* name, const std::vector<Tensor>& outputs, const Inputs& inputs,
                             const std::array<SavedItem, N>& saved, Rule rule) {
  if (detail::anomaly_mode() && grad_mode()) [[unlikely]]
    for (const Tensor& output : outputs) detail::check_forward(name, output);
  if (!inputs.recorded()) return detail::constants(outputs, inputs);
  return detail::attach(intrusive_ptr<Node>(new RuleNode<Rule>(name, std::move(rule))), outputs, inputs,
                        saved);
}

/// The same for an expensive operation: `compute` returns its output (a Tensor) or outputs (a vector) and is
/// called after the inputs were saved. The rerun of a checkpointed segment therefore stops before an
/// operation of which only inputs are needed, and does not compute one whose results the segment keeps.
template <size_t N, std::invocable Compute, class Rule>
auto record(const char* name, Compute compute, const Inputs& inputs, const std::array<SavedItem, N>& saved,
            Rule rule) {
  if (!inputs.recorded()) {
    detail::note_constant_operation(name);
    return detail::constants(compute(), inputs);
  }
  intrusive_ptr<Node> node(new RuleNode<Rule>(name, std::move(rule)));
  detail::save_inputs(*node, saved);
  auto outputs = detail::kept_or_computed(name, compute);
  detail::check_forward_in_anomaly_mode(name, outputs);
  return detail::attach_computed(std::move(node), std::move(outputs), inputs, saved);
}

/// A view of `base` (some of its elements, by strides), also of a base that needs no gradient: an in-place
/// change of one changes both.
template <class Rule>
Variable record_view(const char* name, Tensor output, const Variable& base, Rule rule) {
  const Inputs inputs(std::span<const Variable>(&base, 1));
  Variable view = inputs.recorded()
                      ? detail::attach(intrusive_ptr<Node>(new RuleNode<Rule>(name, std::move(rule))),
                                       std::move(output), inputs, {})
                      : detail::constants(std::move(output), inputs);
  detail::mark_as_view(view, base);
  return view;
}

/// An operation that writes into `x` (its first input): `change` performs it on plain Tensors. Afterwards
/// `x` is the result of this operation; if `x` is a view, so are its elements in the base. While operations
/// are recorded it throws AutogradError for a leaf that requires a gradient, a view of one, a view that
/// was made under NoGrad or is one of several results, and an expanded view; where no input requires a
/// gradient, only for a view made under NoGrad of a Variable that requires one. `rule` returns a gradient per
/// input. Inputs are saved before the change, and backward throws for one that the change overwrote: what the
/// rule needs of the old `x` is saved as a clone.
template <size_t N, class Change, class Rule>
void record_in_place(const char* name, const Variable& x, const Inputs& inputs,
                     const std::array<SavedItem, N>& saved, Change change, Rule rule) {
  const bool recorded = is_floating(x.dtype()) && inputs.recorded();  // others are constants
  detail::check_in_place(name, x, recorded);
  if (!recorded) {
    change();
    detail::propagate_written_layout(inputs.list(), x);
    return;
  }
  intrusive_ptr<Node> node(new RuleNode<Rule>(name, std::move(rule)));
  std::vector<Edge> bases = detail::prepare_in_place(*node, x, inputs, saved);
  change();
  detail::attach_in_place(std::move(node), x, std::move(bases), saved);
  detail::propagate_written_layout(inputs.list(), x);
}

}  // namespace tessera

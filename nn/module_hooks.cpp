// Hooks around a module's call. Backward hooks use two identity operations around each Variable, recorded as
// release, then collect, so that the graph's branches stay separate. Backward runs the later ones first: all
// that collect run before the first that releases, which calls the hooks.

#include "nn/module_hooks.h"

#include <algorithm>
#include <atomic>
#include <ostream>

#include "autograd/debug/backward_reports.h"
#include "autograd/record.h"
#include "nn/parametrize/parametrization.h"

namespace tessera::nn {

namespace {

std::atomic<int64_t> next_hook{1};

template <class Hook>
HookHandle register_in(std::vector<HookEntry<Hook>>& list, std::weak_ptr<void> owner, Hook hook,
                       ForwardHookOptions options = {}) {
  const int64_t id = next_hook.fetch_add(1);
  list.insert(options.prepend ? list.begin() : list.end(), {id, std::move(hook), options.always_call});
  return HookHandle([&list, owner, id] {
    if (owner.lock()) std::erase_if(list, [id](const HookEntry<Hook>& entry) { return entry.id == id; });
  });
}

/// Collects the gradients of one call's arguments, or results, and calls hooks with them.
class GradientCollector {
 public:
  /// May replace the gradients.
  using Call = std::function<void(std::vector<Variable>& gradients)>;

  GradientCollector(size_t count, Call call) : count_(count), call_(std::move(call)) {}

  void collect(size_t i, const Variable& gradient) {
    if (std::exchange(backward_, current_backward()) != current_backward()) {
      gradients_.assign(count_, {});
      called_ = false;
    }
    gradients_[i] = gradient;
  }

  Variable release(size_t i) {
    if (!std::exchange(called_, true)) call_hooks();
    return std::exchange(gradients_[i], {});
  }

 private:
  void call_hooks() {
    // A hook may run a backward through this call: the members are saved here and restored below.
    const uint64_t backward = backward_;
    std::vector<Variable> gradients = std::move(gradients_);
    call_(gradients);
    gradients_ = std::move(gradients);
    backward_ = backward;
    called_ = true;
  }

  size_t count_;
  Call call_;
  std::vector<Variable> gradients_;  // of the running backward
  uint64_t backward_ = 0;
  bool called_ = false;
};

/// Calls those of `hooks` that are called although an exception ended the call; drops what they throw.
void call_always(std::span<const HookEntry<ForwardHook>> hooks, Module& module,
                 std::span<Variable* const> inputs, std::span<Variable* const> outputs) noexcept {
  for (const HookEntry<ForwardHook>& hook : hooks) try {
      if (hook.always) hook.call(module, CallVariables(inputs), CallVariables(outputs));
    } catch (...) {
    }
}

std::vector<OutputInfo> infos_of(std::span<Variable* const> variables) {
  std::vector<OutputInfo> infos;
  for (const Variable* variable : variables)
    infos.push_back(variable->defined() ? OutputInfo{variable->shape(), variable->dtype()} : OutputInfo{});
  return infos;
}

bool any_requires_grad(std::span<Variable* const> variables) {
  return grad_mode() && std::any_of(variables.begin(), variables.end(),
                                    [](const Variable* variable) { return variable->requires_grad(); });
}

/// A view, so that an in-place write of the module into an argument reaches the caller's `base`.
template <class Rule>
Variable identity(const char* name, const Variable& x, const Variable& base, const Rule& rule) {
  const Variable y = record(name, x.value(), {x}, saved(), rule);
  tessera::detail::mark_as_view(y, base, ViewKind::same);
  return y;
}

/// Replaces `variables` by the results of identity operations that pass their gradients to `collector`.
void observe(const std::shared_ptr<GradientCollector>& collector, std::span<Variable* const> variables,
             const char* name) {
  std::vector<Variable> originals;
  for (const Variable* variable : variables) originals.push_back(*variable);
  // The last one first: backward then passes gradients on in the order of the Variables.
  for (size_t i = variables.size(); i-- > 0;)
    if (variables[i]->requires_grad())
      *variables[i] = identity(name, *variables[i], originals[i],
                               [collector, i](Saved&, const Incoming&, const Wanted&) -> Gradients {
                                 return {collector->release(i)};
                               });
  for (size_t i = variables.size(); i-- > 0;)
    if (variables[i]->requires_grad())
      *variables[i] = identity(name, *variables[i], originals[i],
                               [collector, i](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                                 collector->collect(i, dy[0]);
                                 return {dy[0]};
                               });
}

}  // namespace

/// What the backward hooks of one call share: the gradients of its results wait here for those of its
/// arguments.
class Module::HookedBackward : public std::enable_shared_from_this<HookedBackward> {
 public:
  HookedBackward(Module& module, std::weak_ptr<Hooks> hooks)
      : module_(module), hooks_(std::move(hooks)), hook_id_end_(next_hook.load()) {}

  void observe_inputs(std::span<Variable* const> inputs) {
    inputs_ = infos_of(inputs);
    has_input_gradients_ = any_requires_grad(inputs);
    if (!has_input_gradients_) return;
    for (const Variable* input : inputs)
      if (input->requires_grad() && input->is_leaf()) leaves_.push_back(*input);
    const auto call = [self = shared_from_this()](std::vector<Variable>& gradients) {
      self->call_input_hooks(gradients);
    };
    observe(std::make_shared<GradientCollector>(inputs.size(), call), inputs, "module_inputs");
  }

  void observe_outputs(std::span<Variable* const> outputs) {
    outputs_ = infos_of(outputs);
    if (!any_requires_grad(outputs)) return;
    const auto call = [self = shared_from_this()](std::vector<Variable>& gradients) {
      self->call_output_hooks(gradients);
    };
    observe(std::make_shared<GradientCollector>(outputs.size(), call), outputs, "module_outputs");
  }

 private:
  void call_output_hooks(std::vector<Variable>& gradients) {
    const auto hooks = hooks_.lock();
    if (!hooks) return;
    run(hooks->backward_pre, gradients, outputs_);
    if (hooks->full_backward.empty()) return;
    backward_ = current_backward();
    output_gradients_ = gradients;
    if (has_input_gradients_) return;
    std::vector<Variable> none(inputs_.size());
    call_full_hooks(*hooks, none);
  }

  void call_input_hooks(std::vector<Variable>& gradients) {
    const auto hooks = hooks_.lock();
    if (!hooks) return;
    call_full_hooks(*hooks, gradients);
    run(hooks->input_gradient, gradients, inputs_);
  }

  void call_full_hooks(const Hooks& hooks, std::vector<Variable>& gradients) {
    if (hooks.full_backward.empty()) return;
    std::vector<Variable> of_outputs = std::exchange(output_gradients_, {});
    if (backward_ != current_backward() || of_outputs.empty()) of_outputs.assign(outputs_.size(), {});
    run(hooks.full_backward, gradients, inputs_, std::as_const(of_outputs));
  }

  /// Calls the hooks in `list` that were registered before the call, and checks what each leaves.
  template <class Hook, class... More>
  void run(const std::vector<HookEntry<Hook>>& list, std::vector<Variable>& gradients,
           const std::vector<OutputInfo>& expected, const More&... more) {
    std::vector<bool> arrived;
    for (const Variable& gradient : gradients) arrived.push_back(gradient.defined());
    for (const auto& hook : std::vector(list)) {
      if (hook.id >= hook_id_end_) continue;
      hook.call(module_, gradients, more...);
      check(gradients, arrived, expected);
    }
  }

  void check(const std::vector<Variable>& gradients, const std::vector<bool>& arrived,
             const std::vector<OutputInfo>& expected) const {
    const auto where = [&](size_t i) {
      return text("a backward hook of ", module_.kind(), " '", module_.full_name(), "', gradient ", i, ": ");
    };
    require<AutogradError>(gradients.size() == expected.size(), where(0), "expected ", expected.size(),
                           " gradients, the hook left ", gradients.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      require<AutogradError>(arrived[i], where(i), "expected none, since no gradient arrived here");
      require<AutogradError>(
          gradients[i].shape() == expected[i].shape && gradients[i].dtype() == expected[i].dtype, where(i),
          "expected ", expected[i].shape, " ", expected[i].dtype, ", the hook gave ", gradients[i]);
    }
  }

  Module& module_;
  std::weak_ptr<Hooks> hooks_;  // expires with the module
  int64_t hook_id_end_;         // hooks from this id on were registered after the call
  std::vector<OutputInfo> inputs_, outputs_;
  bool has_input_gradients_ = false;
  std::vector<Variable> leaves_;  // among the inputs: a backward that ends at a dead leaf stops before
  std::vector<Variable> output_gradients_;  // for full backward hooks
  uint64_t backward_ = 0;                   // the backward of these
};

Module::Hooks& Module::hooks() {
  if (!hooks_) hooks_ = std::make_shared<Hooks>();
  return *hooks_;
}

void Module::HookedCall::before_forward(std::span<Variable* const> inputs) {
  inputs_ = inputs;
  const std::shared_ptr<Hooks>& hooks = module_.hooks_;
  for (const auto& hook : std::vector(hooks->forward_pre)) hook.call(module_, CallVariables(inputs));
  const bool observes_inputs = !hooks->full_backward.empty() || !hooks->input_gradient.empty();
  if (grad_mode() && (!hooks->backward_pre.empty() || observes_inputs)) {
    backward_ = std::make_shared<HookedBackward>(module_, hooks);
    if (observes_inputs) backward_->observe_inputs(inputs);
  }
  // After the inputs are observed: backward then ends with what was computed here before it calls the hooks
  // with the gradients of the inputs, of which one may free the parameters.
  if (!hooks->computed.empty() && !module_.runs_as_segment()) Hooks::begin_computation(*this, hooks);
}

void Module::HookedCall::after_forward(std::span<Variable* const> inputs,
                                       std::span<Variable* const> outputs) {
  const std::shared_ptr<Hooks>& hooks = module_.hooks_;
  if (backward_ && (!hooks->backward_pre.empty() || !hooks->full_backward.empty()))
    backward_->observe_outputs(outputs);
  const std::vector<HookEntry<ForwardHook>> list = hooks->forward;
  results_seen_ = true;
  for (size_t i = 0; i < list.size(); ++i) try {
      list[i].call(module_, CallVariables(inputs), CallVariables(outputs));
    } catch (...) {
      call_always(std::span(list).subspan(i + 1), module_, inputs, outputs);
      throw;
    }
  Hooks::end_computation(*this);
  finished_ = true;
}

void Module::HookedCall::fail() noexcept {
  Hooks::end_computation(*this);
  const std::shared_ptr<Hooks>& hooks = module_.hooks_;
  if (!results_seen_) call_always(std::vector(hooks->forward), module_, inputs_, {});
  for (const auto& hook : std::vector(hooks->forward_failure)) try {
      hook.call(module_);
    } catch (...) {
    }
}

// Parameters that a call computes.

Module::Hooks::Computation::Computation(std::shared_ptr<Hooks> hooks) {
  if (hooks->computed.empty()) return;
  lock_ = std::unique_lock(hooks->computing);
  if (hooks->computing_calls == 0) {  // a call inside another one has its values
    std::vector<Variable> values;
    for (const ComputedParameter& p : hooks->computed) values.push_back(p.parametrization->compute());
    for (size_t i = 0; i < values.size(); ++i) hooks->computed[i].entry->variable = values[i];
  }
  ++hooks->computing_calls;
  hooks_ = std::move(hooks);
}

Module::Hooks::Computation::~Computation() {
  if (!hooks_ || --hooks_->computing_calls > 0) return;
  for (const ComputedParameter& p : hooks_->computed) p.entry->variable = Variable();
}

namespace {

/// The computations of this thread's calls, the innermost one last.
template <class Call, class Computation>
std::vector<std::pair<const Call*, std::unique_ptr<Computation>>>& computations() {
  thread_local std::vector<std::pair<const Call*, std::unique_ptr<Computation>>> list;
  return list;
}

}  // namespace

void Module::Hooks::begin_computation(const HookedCall& call, const std::shared_ptr<Hooks>& hooks) {
  computations<HookedCall, Computation>().emplace_back(&call, std::make_unique<Computation>(hooks));
}

void Module::Hooks::end_computation(const HookedCall& call) noexcept {
  auto& open = computations<HookedCall, Computation>();
  if (!open.empty() && open.back().first == &call) open.pop_back();
}

Variable& CallVariables::operator[](size_t i) const {
  require<IndexError>(i < variables_.size(), "a hook: Variable ", i, " of a call with ", variables_.size());
  return *variables_[i];
}

void CallVariables::replace(const Variable& by) const {
  if (by.defined()) replace(std::vector{by});
}

void CallVariables::replace(const std::vector<Variable>& by) const {
  if (by.empty()) return;
  require<ValueError>(by.size() == variables_.size(), "a hook returned ", by.size(),
                      " Variables for a call with ", variables_.size());
  for (size_t i = 0; i < by.size(); ++i) *variables_[i] = by[i];
}

std::string to_string(const CallVariables& variables) {
  std::string list;
  for (const Variable& variable : variables) list += (list.empty() ? "" : ", ") + to_string(variable);
  return "[" + list + "]";
}

std::ostream& operator<<(std::ostream& out, const CallVariables& variables) {
  return out << to_string(variables);
}

HookHandle Module::add_forward_pre_hook(ForwardPreHook hook, HookOptions options) {
  auto& list = hooks().forward_pre;
  return register_in(list, hooks_, std::move(hook), {.prepend = options.prepend});
}
HookHandle Module::add_forward_hook(ForwardHook hook, ForwardHookOptions options) {
  auto& list = hooks().forward;
  return register_in(list, hooks_, std::move(hook), options);
}
HookHandle Module::register_forward_failure_hook(ForwardFailureHook hook) {
  auto& list = hooks().forward_failure;
  return register_in(list, hooks_, std::move(hook));
}
HookHandle Module::add_backward_pre_hook(BackwardHook hook, HookOptions options) {
  auto& list = hooks().backward_pre;
  return register_in(list, hooks_, std::move(hook), {.prepend = options.prepend});
}
HookHandle Module::add_full_backward_hook(FullBackwardHook hook, HookOptions options) {
  auto& list = hooks().full_backward;
  return register_in(list, hooks_, std::move(hook), {.prepend = options.prepend});
}
HookHandle Module::register_input_gradient_hook(BackwardHook hook) {
  auto& list = hooks().input_gradient;
  return register_in(list, hooks_, std::move(hook));
}

// Calls that backward runs again.

void Module::set_checkpointed(bool checkpointed, std::vector<std::string> keep) {
  if (checkpointed)
    hooks().checkpoint = CheckpointOptions{std::move(keep)};
  else if (hooks_)
    hooks_->checkpoint.reset();
}

bool Module::is_checkpointed() const {
  return hooks_ && hooks_->checkpoint;
}

bool Module::runs_as_segment() const {
  return is_checkpointed() && grad_mode();
}

void Module::run_segment(std::function<std::vector<Variable>(std::span<const Variable>)> segment,
                         std::vector<Variable> inputs) const {
  const std::string name = full_name().empty() ? kind() : full_name();
  const auto while_it_lives = [weak = std::weak_ptr(hooks_), name,
                               segment = std::move(segment)](std::span<const Variable> given) {
    auto hooks = weak.lock();
    require<AutogradError>(hooks != nullptr, "checkpoint '", name,
                           "': backward runs a module again that was destroyed; keep it until then");
    const Hooks::Computation computation(std::move(hooks));
    return segment(given);
  };
  checkpoint_segment(name, while_it_lives, std::move(inputs), *hooks_->checkpoint);
}

void Module::fail_for_changed_argument() const {
  throw AutogradError(text(kind(), " '", full_name(),
                           "' is checkpointed: a tensor among its arguments was changed in place between "
                           "forward and backward, which runs it again"));
}

void Module::fail_to_run_again() const {
  throw ConfigError(
      text(kind(), " '", full_name(),
           "' is checkpointed: expected a call that can run again in backward (forward, or a body made by "
           "nn::rerunnable, with arguments that are values), got another one"));
}

}  // namespace tessera::nn

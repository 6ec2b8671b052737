// Hooks around a module's call. Backward hooks use two identity operations around each Variable, recorded as
// release, then collect, so that the graph's branches stay separate. Backward runs the later ones first: all
// that collect run before the first that releases, which calls the hooks.

#include <algorithm>
#include <atomic>

#include "autograd/debug/backward_reports.h"
#include "autograd/record.h"
#include "nn/module.h"

namespace tessera::nn {

template <class Hook>
struct HookEntry {
  int64_t id;
  Hook call;
};

struct Module::Hooks {
  std::vector<HookEntry<ForwardPreHook>> forward_pre;
  std::vector<HookEntry<ForwardHook>> forward;
  std::vector<HookEntry<ForwardFailureHook>> forward_failure;
  std::vector<HookEntry<BackwardHook>> backward_pre;
  std::vector<HookEntry<BackwardHook>> backward;
};

namespace {

std::atomic<int64_t> next_hook{1};

template <class Hook>
HookHandle register_in(std::vector<HookEntry<Hook>>& list, std::weak_ptr<void> owner, Hook hook) {
  const int64_t id = next_hook.fetch_add(1);
  list.push_back({id, std::move(hook)});
  return HookHandle([&list, owner, id] {
    if (owner.lock()) std::erase_if(list, [id](const HookEntry<Hook>& entry) { return entry.id == id; });
  });
}

/// Collects the gradients of one call's arguments, or results, and calls the hooks with them.
class HookedGradients {
 public:
  using List = std::vector<HookEntry<BackwardHook>>;

  /// `list` lives as long as `owner`.
  HookedGradients(Module& module, std::weak_ptr<void> owner, const List& list,
                  std::span<Variable* const> variables)
      : module_(module), owner_(std::move(owner)), list_(list), hook_id_end_(next_hook.load()) {
    for (const Variable* variable : variables)
      expected_.push_back(variable->defined() ? OutputInfo{variable->shape(), variable->dtype()}
                                              : OutputInfo{});
  }

  void collect(size_t i, const Variable& gradient) {
    if (std::exchange(backward_, current_backward()) != current_backward()) {
      gradients_.assign(expected_.size(), {});
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
    const auto alive = owner_.lock();
    if (!alive) return;
    // A hook may run a backward through this call: the members are saved here and restored below.
    const uint64_t backward = backward_;
    std::vector<Variable> gradients = std::move(gradients_);
    std::vector<bool> arrived;
    for (const Variable& gradient : gradients) arrived.push_back(gradient.defined());
    for (const auto& hook : List(list_)) {
      if (hook.id >= hook_id_end_) continue;
      hook.call(module_, gradients);
      check(gradients, arrived);
    }
    gradients_ = std::move(gradients);
    backward_ = backward;
    called_ = true;
  }

  void check(const std::vector<Variable>& gradients, const std::vector<bool>& arrived) const {
    const auto where = [&](size_t i) {
      return text("a backward hook of ", module_.kind(), " '", module_.full_name(), "', gradient ", i, ": ");
    };
    require<AutogradError>(gradients.size() == expected_.size(), where(0), "expected ", expected_.size(),
                           " gradients, the hook left ", gradients.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      require<AutogradError>(arrived[i], where(i), "expected none, since no gradient arrived here");
      require<AutogradError>(
          gradients[i].shape() == expected_[i].shape && gradients[i].dtype() == expected_[i].dtype, where(i),
          "expected ", expected_[i].shape, " ", expected_[i].dtype, ", the hook gave ", gradients[i]);
    }
  }

  Module& module_;
  std::weak_ptr<void> owner_;  // expires with the module
  const List& list_;
  int64_t hook_id_end_;  // hooks from this id on were registered after the call
  std::vector<OutputInfo> expected_;
  std::vector<Variable> gradients_;  // of the running backward
  uint64_t backward_ = 0;
  bool called_ = false;
};

/// A view, so that an in-place write of the module into an argument reaches the caller's `base`.
template <class Rule>
Variable identity(const char* name, const Variable& x, const Variable& base, const Rule& rule) {
  const Variable y = record(name, x.value(), {x}, saved(), rule);
  detail::mark_as_view(y, base, ViewKind::same);
  return y;
}

/// Replaces `variables` by the results of identity operations that pass their gradients to the hooks in
/// `list`.
void wrap(Module& module, std::weak_ptr<void> owner, const HookedGradients::List& list,
          std::span<Variable* const> variables, const char* name) {
  const auto requires_grad = [](const Variable* variable) { return variable->requires_grad(); };
  if (list.empty() || !grad_mode() || std::none_of(variables.begin(), variables.end(), requires_grad)) return;
  const auto hooked = std::make_shared<HookedGradients>(module, std::move(owner), list, variables);
  std::vector<Variable> originals;
  for (const Variable* variable : variables) originals.push_back(*variable);
  // The last one first: backward then passes gradients on in the order of the Variables.
  for (size_t i = variables.size(); i-- > 0;)
    if (requires_grad(variables[i]))
      *variables[i] = identity(
          name, *variables[i], originals[i],
          [hooked, i](Saved&, const Incoming&, const Wanted&) -> Gradients { return {hooked->release(i)}; });
  for (size_t i = variables.size(); i-- > 0;)
    if (requires_grad(variables[i]))
      *variables[i] = identity(name, *variables[i], originals[i],
                               [hooked, i](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                                 hooked->collect(i, dy[0]);
                                 return {dy[0]};
                               });
}

}  // namespace

Module::Hooks& Module::hooks() {
  if (!hooks_) hooks_ = std::make_shared<Hooks>();
  return *hooks_;
}

void Module::before_forward(std::span<Variable* const> inputs) {
  for (const auto& hook : std::vector(hooks_->forward_pre)) hook.call(*this, inputs);
  wrap(*this, hooks_, hooks_->backward, inputs, "module_inputs");
}

void Module::after_forward(std::span<Variable* const> outputs) {
  wrap(*this, hooks_, hooks_->backward_pre, outputs, "module_outputs");
  for (const auto& hook : std::vector(hooks_->forward)) hook.call(*this, outputs);
}

void Module::forward_failed() noexcept {
  for (const auto& hook : std::vector(hooks_->forward_failure)) try {
      hook.call(*this);
    } catch (...) {
    }
}

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  auto& list = hooks().forward_pre;
  return register_in(list, hooks_, std::move(hook));
}
HookHandle Module::register_forward_hook(ForwardHook hook) {
  auto& list = hooks().forward;
  return register_in(list, hooks_, std::move(hook));
}
HookHandle Module::register_forward_failure_hook(ForwardFailureHook hook) {
  auto& list = hooks().forward_failure;
  return register_in(list, hooks_, std::move(hook));
}
HookHandle Module::register_backward_pre_hook(BackwardHook hook) {
  auto& list = hooks().backward_pre;
  return register_in(list, hooks_, std::move(hook));
}
HookHandle Module::register_backward_hook(BackwardHook hook) {
  auto& list = hooks().backward;
  return register_in(list, hooks_, std::move(hook));
}

}  // namespace tessera::nn

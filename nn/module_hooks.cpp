// Hooks around a module's call. Backward hooks stand on two identity operations, one around the arguments and
// one around the results: their rules run when the gradients of all of them have arrived.

#include <algorithm>
#include <atomic>

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

/// The same Variables behind one operation whose rule shows their gradients to `hooks`.
void wrap(Module& module, std::span<Variable* const> variables, const char* name,
          const std::vector<HookEntry<BackwardHook>>& hooks) {
  if (hooks.empty() || !grad_mode()) return;
  std::vector<Variable*> flowing;
  std::vector<Variable> inputs;
  std::vector<Tensor> outputs;
  for (Variable* variable : variables) {
    if (!variable->requires_grad()) continue;
    flowing.push_back(variable);
    inputs.push_back(*variable);
    outputs.push_back(variable->value());
  }
  if (flowing.empty()) return;
  const std::vector<Variable> wrapped =
      record(name, outputs, inputs, saved(),
             [&module, hooks](Saved&, const Incoming& incoming, const Wanted&) -> Gradients {
               std::vector<Variable> gradients;
               for (size_t i = 0; i < incoming.size(); ++i) gradients.push_back(incoming[i]);
               for (const HookEntry<BackwardHook>& hook : hooks) hook.call(module, gradients);
               return Gradients(gradients);
             });
  for (size_t i = 0; i < flowing.size(); ++i) *flowing[i] = wrapped[i];
}

}  // namespace

Module::Hooks& Module::hooks() {
  if (!hooks_) hooks_ = std::make_shared<Hooks>();
  return *hooks_;
}

void Module::before_forward(std::span<Variable* const> inputs) {
  for (const auto& hook : std::vector(hooks_->forward_pre)) hook.call(*this, inputs);
  wrap(*this, inputs, "module_inputs", hooks_->backward);
}

void Module::after_forward(std::span<Variable* const> outputs) {
  wrap(*this, outputs, "module_outputs", hooks_->backward_pre);
  for (const auto& hook : std::vector(hooks_->forward)) hook.call(*this, outputs);
}

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  auto& list = hooks().forward_pre;
  return register_in(list, hooks_, std::move(hook));
}
HookHandle Module::register_forward_hook(ForwardHook hook) {
  auto& list = hooks().forward;
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

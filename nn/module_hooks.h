#pragma once  // internal

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "autograd/recompute/checkpoint.h"
#include "nn/module.h"

namespace tessera::nn {

class Parametrization;

/// A registered hook.
template <class Hook>
struct HookEntry {
  int64_t id;
  Hook call;
  bool always = false;  ///< of a forward hook: called also where an exception ended the call
};

/// A parameter that each call of its module computes (nn/parametrize/parametrization.h).
struct ComputedParameter {
  Module::Entry* entry;              ///< has no Variable except in a call
  Variable parameter;                ///< what the entry had, on meta meanwhile
  Parametrization* parametrization;  ///< a descendant of the module
  std::function<std::unique_ptr<Parametrization>(const Module::Entry&)> make;  ///< for a clone
};

/// What runs around a module's calls: hooks, checkpointing, and parameters that the call computes.
struct Module::Hooks {
  std::vector<HookEntry<ForwardPreHook>> forward_pre;
  std::vector<HookEntry<ForwardHook>> forward;
  std::vector<HookEntry<ForwardFailureHook>> forward_failure;
  std::vector<HookEntry<BackwardHook>> backward_pre;
  std::vector<HookEntry<FullBackwardHook>> full_backward;
  std::vector<HookEntry<BackwardHook>> input_gradient;
  std::optional<CheckpointOptions> checkpoint;  // of calls that backward runs again

  std::vector<ComputedParameter> computed;
  std::recursive_mutex computing;  // held by a call while the computed parameters have its values
  int computing_calls = 0;         // calls inside one another

  /// Gives the computed parameters their values, with history, as long as it lives.
  class Computation {
   public:
    explicit Computation(std::shared_ptr<Hooks> hooks);
    ~Computation();
    Computation(const Computation&) = delete;
    Computation& operator=(const Computation&) = delete;

   private:
    std::shared_ptr<Hooks> hooks_;  // null: nothing is computed
    std::unique_lock<std::recursive_mutex> lock_;
  };
  /// A Computation during a call; the end of a call that began none does nothing.
  /// @{
  static void begin_computation(const HookedCall& call, const std::shared_ptr<Hooks>& hooks);
  static void end_computation(const HookedCall& call) noexcept;
  /// @}

  /// Access for Parametrization: the hooks of a module, null where there are none; its children.
  /// @{
  static const Hooks* find(const Module& module) { return module.hooks_.get(); }
  static Hooks& of(Module& module) { return module.hooks(); }
  static void adopt(Module& parent, const std::string& name, std::unique_ptr<Module> child) {
    parent.adopt_child(name, std::move(child));
  }
  static void drop_child(Module& parent, const std::string& name) {
    std::erase_if(parent.children_, [&](const Child& child) { return child.name == name; });
  }
  /// @}
};

}  // namespace tessera::nn

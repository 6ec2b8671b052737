#pragma once

#include <atomic>
#include <concepts>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autograd/parameter_list.h"
#include "autograd/variable.h"
#include "nn/init.h"
#include "tensor/named_tensor.h"

namespace tessera::nn {

class Module;

/// Parameters and buffers by their full names.
using StateDict = std::vector<NamedTensor>;

/// Receives the Variables among a call's arguments before it runs, and may replace them.
using ForwardPreHook = std::function<void(Module& module, std::span<Variable* const> inputs)>;
/// Receives the Variables among a call's results, and may replace them.
using ForwardHook = std::function<void(Module& module, std::span<Variable* const> outputs)>;
/// Called in the place of forward hooks when an exception ended the call.
using ForwardFailureHook = std::function<void(Module& module)>;
/// Receives gradients, one per Variable of the call's results, or arguments, undefined where this backward
/// has none, and may replace the defined ones.
using BackwardHook = std::function<void(Module& module, std::vector<Variable>& gradients)>;

/// Holds the values of a module's parameters in the module's place when they are sharded over ranks. The
/// module's functions about parameters then call these.
class ParameterStore {
 public:
  virtual ~ParameterStore() = default;
  /// This rank's shard of each parameter from `module` down, by full names.
  virtual ParameterList parameters(const Module& module) = 0;
  /// Gives every parameter its memory, and the values of its recorded program.
  virtual void materialize(Device device, uint64_t seed) = 0;
  /// The full value of a parameter, for state dicts. Throws ConfigError, naming it, unless it was gathered.
  virtual Tensor full_value(const std::string& name, const Variable& parameter) = 0;
};

/// A part of a model: named parameters, buffers and child modules, in order of declaration. Constructed on
/// meta: a parameter is a shape and the program of its initial values until `nn::materialize` runs it.
/// Neither copied nor moved; children and parameters have stable addresses. Derive from nn::Layer to get a
/// call that runs hooks.
///
/// Several threads may call one module at once and read its names, parameters and mode; each has its own
/// graph and random context. autograd/variable.h states what backward may do to shared parameters from
/// several threads. Changing a module (train, to, set_requires_grad, materialize, load_state_dict, an
/// optimizer's step) or its hooks is for one thread, while no other uses it; a registered hook is called
/// from every thread that calls the module.
class Module {
 public:
  /// A parameter or buffer as it was declared.
  struct Slot {
    std::string name;  ///< within its module, without dots
    /// A leaf, on meta until it is materialized; the same one under every name of tied weights.
    Variable variable;
    init::Initializer program;  ///< of the initial values; undefined where `share_parameter` made the slot
    bool is_buffer = false;     ///< made by `buffer`: not trained, and not in `parameters()`
    bool persistent = true;     ///< of a buffer: whether state dicts hold it
    Tensor master = {};         ///< f32, in mixed precision (nn/mixed_precision.h); else undefined
  };
  /// A module within its parent.
  struct Child {
    std::string name;                ///< within the parent, without dots
    std::unique_ptr<Module> module;  ///< never null
  };

  Module();
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The type's name for summaries and errors ("Linear").
  virtual std::string kind() const { return "Module"; }
  /// Options worth printing ("512 -> 2048, bias").
  virtual std::string describe_options() const { return ""; }
  /// Whether it can be called. Hooks run around calls only.
  virtual bool has_forward() const { return false; }
  /// Whether it holds modules that its owner may call one by one, without calling it (a list of layers).
  virtual bool is_container() const { return false; }

  /// Its name within its parent; empty for a root.
  const std::string& name() const { return name_; }
  /// Names from the root down, joined by dots; empty for a root.
  const std::string& full_name() const;
  /// The module that owns this one; null for a root.
  Module* parent() const { return parent_; }
  /// The direct children, in order of declaration.
  std::span<const Child> children() const { return children_; }
  /// The parameters and buffers that this module itself declares, in order of declaration.
  /// @{
  std::deque<Slot>& slots() { return slots_; }
  const std::deque<Slot>& slots() const { return slots_; }
  /// @}
  /// The module at a path such as "blocks.3.mlp". Throws ValueError naming the children that exist.
  Module& at(const std::string& path);

  /// What holds the parameters of this module and its submodules; null where they hold their own. Found at
  /// the module itself or at its nearest ancestor that has one.
  ParameterStore* store() const;
  /// Leaves the parameters from here down to a store, as sharding does.
  void set_store(std::shared_ptr<ParameterStore> store) { store_ = std::move(store); }

  /// Calls `visit(module)` for this module and everything below it, parents first, in order of declaration.
  void for_each(const std::function<void(Module&)>& visit);

  /// All parameters from here down, each once by identity under its first full name in the whole model, so
  /// that lists of several submodules go into one optimizer; of a sharded module this rank's shards of them.
  ParameterList parameters() const;
  /// All buffers from here down.
  std::vector<NamedParameter> buffers() const;
  /// Parameters (in mixed precision their f32 masters, and beside them what is computed with) and persistent
  /// buffers, by names relative to this module; tensors share storage with the module.
  StateDict state_dict() const;
  /// Copies values into parameters and buffers; tied weights are found under any of their names. All names,
  /// shapes and dtypes are checked before the first is written: throws ValueError for missing or unexpected
  /// names (with `strict`) and for tied weights given with different values, ShapeError, DTypeError,
  /// DeviceError for a module on meta, and then loads nothing.
  void load_state_dict(const StateDict& state, bool strict = true);

  /// Training or evaluation, for this module and everything below (dropout).
  void train(bool training = true);
  /// `train(false)`.
  void eval() { train(false); }
  /// The mode; in a checkpointed segment that backward runs again, the mode of its forward.
  bool is_training() const;
  /// Freezes or unfreezes every parameter from here down, sharded or not.
  void set_requires_grad(bool requires_grad);
  /// Moves or converts every parameter and buffer (floating ones only for a dtype, which ends mixed
  /// precision), and their gradients; Variables keep their identity. Throws ConfigError for a sharded module,
  /// DTypeError for a dtype that is not floating.
  /// @{
  void to(Device device);
  void to(DType dtype);
  /// @}
  /// Clears the gradients of `parameters()`: they are undefined afterwards.
  void zero_grad() const { parameters().zero_grad(); }

  /// Called before `forward` in each call of the module. Hooks of one kind are called in the order of their
  /// registration, until `remove` of the handle; a handle that is destroyed removes none.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  /// Called after `forward` in each call that no exception ended.
  HookHandle register_forward_hook(ForwardHook hook);
  /// An exception from such a hook is dropped: the one that ended the call propagates.
  HookHandle register_forward_failure_hook(ForwardFailureHook hook);

  /// Called once for each call of the module and each backward that reaches one of its results, before that
  /// backward runs anything inside the call, with the gradients of all its results. Unlike in PyTorch's
  /// full_backward_pre_hook, results stay apart: the gradient of one that is not in the loss is undefined,
  /// and nothing behind it is reached. A hook may replace a gradient that arrived, also by an undefined one;
  /// AutogradError when it gives another shape or dtype, or a gradient where none arrived. A hook is called
  /// if it was registered before the call and not removed since; none is called after the module's
  /// destruction.
  HookHandle register_backward_pre_hook(BackwardHook hook);
  /// The same for the Variables among the arguments, when all their gradients of a backward have arrived. Not
  /// called where no argument requires one (PyTorch's full_backward_hook is, and receives the results' too).
  HookHandle register_backward_hook(BackwardHook hook);

 protected:
  /// Declares a parameter: a meta leaf with a recorded initialiser. Throws ConfigError when the name is
  /// taken.
  Variable& parameter(const std::string& name, const Shape& shape, init::Initializer program,
                      DType dtype = f32);
  /// Declares a parameter that another module owns too: one Variable under two names (tied weights).
  Variable& share_parameter(const std::string& name, const Variable& shared);
  /// Declares a tensor that is not trained.
  Variable& buffer(const std::string& name, const Shape& shape, init::Initializer program, DType dtype = f32,
                   bool persistent = true);
  /// The same, filled with what `element(index, shape)` returns, in any dtype (init::elementwise).
  Variable& buffer(const std::string& name, const Shape& shape, init::Element element, DType dtype = f32,
                   bool persistent = true);
  /// Makes a child of type M. `add<nn::Linear>("fc", {.in = 768, .out = 3072})`: options in braces.
  template <class M>
  M& add(const std::string& name, typename M::Options options) {
    return adopt(name, std::make_unique<M>(std::move(options)));
  }
  /// The same by constructor arguments: `add<nn::LayerNorm>("ln_1", width)`.
  template <class M, class... Args>
  requires std::constructible_from<M, Args...> M& add(const std::string& name, Args&&... args) {
    return adopt(name, std::make_unique<M>(std::forward<Args>(args)...));
  }
  /// Makes `module` a child, and returns it. Throws ConfigError for a name that is taken, empty or has a dot.
  template <class M>
  M& adopt(const std::string& name, std::unique_ptr<M> module) {
    M& reference = *module;
    adopt_child(name, std::move(module));
    return reference;
  }

  struct Hooks;
  /// Whether a hook was registered at any time; if not, the two functions below must not be called.
  bool has_hooks() const { return static_cast<bool>(hooks_); }
  /// Calls the forward pre-hooks, then replaces `inputs` by Variables that backward hooks observe.
  void before_forward(std::span<Variable* const> inputs);
  /// Replaces `outputs` by Variables that backward pre-hooks observe, then calls the forward hooks.
  void after_forward(std::span<Variable* const> outputs);

  /// A call that runs hooks: ended by an exception, it calls the failure hooks.
  class HookedCall {
   public:
    /// Begins a call of `module`.
    explicit HookedCall(Module& module) : module_(module) {}
    ~HookedCall() {
      if (!finished_) module_.forward_failed();
    }
    HookedCall(const HookedCall&) = delete;
    HookedCall& operator=(const HookedCall&) = delete;
    /// No exception ended the call: failure hooks are not called.
    void finish() { finished_ = true; }

   private:
    Module& module_;
    bool finished_ = false;
  };

 private:
  void forward_failed() noexcept;
  void adopt_child(const std::string& name, std::unique_ptr<Module> module);
  void require_free_name(const std::string& name) const;
  Hooks& hooks();
  void invalidate_full_names();

  std::string name_;
  mutable std::string full_name_;
  mutable std::atomic<bool> full_name_valid_{false};
  Module* parent_ = nullptr;
  bool training_ = true;
  std::deque<Slot> slots_;  // a deque: `Variable&` members of layers point into it
  std::vector<Child> children_;
  std::shared_ptr<Hooks> hooks_;
  std::shared_ptr<ParameterStore> store_;  // destroyed first: it refers to the module's parameters
};

/// Parameters by identity.
using ParameterSet = std::unordered_set<const VariableImpl*>;
/// Those of `module` and its submodules.
ParameterSet parameters_below(const Module& module);

}  // namespace tessera::nn

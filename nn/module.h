#pragma once

#include <atomic>
#include <concepts>
#include <deque>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autograd/parameter_list.h"
#include "autograd/variable.h"
#include "nn/hooks.h"
#include "nn/init.h"
#include "nn/module_range.h"
#include "nn/state_dict.h"
#include "tensor/named_tensor.h"

namespace tessera::nn {

/// Holds the values of a module's parameters in the module's place when they are sharded over ranks. The
/// module's functions about parameters then call these.
class ParameterStore {
 public:
  virtual ~ParameterStore() = default;
  /// This rank's shard of each parameter from `module` down, by full names.
  virtual ParameterList parameters(const Module& module) = 0;
  /// Gives every parameter its memory, and the values of its recorded initialiser.
  virtual void materialize(Device device, uint64_t seed) = 0;
  /// The full value of a parameter, for state dicts. Throws ConfigError, naming it, unless it was gathered.
  virtual Tensor full_value(const std::string& name, const Variable& parameter) = 0;
};

class Module;

/// A module by value, which `add` and containers move into their tree; or a reference to one.
template <class M>
concept ModuleValue = std::derived_from<std::remove_cvref_t<M>, Module>;

/// A component of a model: named parameters, buffers and child modules, in order of declaration. Constructed
/// on meta: a parameter is a shape and the initialiser of its values until `nn::materialize` runs it.
/// Children and parameters have stable addresses, and references to them stay valid when the module is moved,
/// so that `Linear& fc = add("fc", nn::Linear(2, 64))` builds a child by value. Only a root is moved, before
/// it has hooks. Copies are made by `nn::clone`. Derive from nn::Layer to get a call that runs hooks.
///
/// Several threads may call one module at once and read its names, parameters and mode; each has its own
/// graph and random context. autograd/variable.h states what backward may do to shared parameters from
/// several threads. Changing a module (train, to, set_requires_grad, materialize, load_state_dict, an
/// optimizer's step) or its hooks is for one thread, while no other uses it; a registered hook is called
/// from every thread that calls the module.
class Module {
 public:
  /// A parameter or buffer as it was declared.
  struct Entry {
    std::string name;  ///< within its module, without dots
    /// A leaf, on meta until it is materialized; the same one under every name of tied weights.
    Variable variable;
    init::Initializer
        initializer;         ///< of the initial values; undefined where `share_parameter` made the entry
    bool is_buffer = false;  ///< made by `buffer`: not trained, and not in `parameters()`
    bool persistent = true;  ///< of a buffer: whether state dicts hold it
    bool held =
        true;  ///< whether this rank holds it (nn/sequence/hold.h); else it is on meta and listed nowhere
    Tensor master = {};  ///< f32, in mixed precision (nn/mixed_precision.h); else undefined
  };
  /// A module within its parent.
  struct Child {
    std::string name;                ///< within the parent, without dots
    std::unique_ptr<Module> module;  ///< never null
  };

  Module();
  virtual ~Module();
  Module(const Module&) = delete;             // write nn::clone(module), or pass a reference: nn::Linear& x
  Module& operator=(const Module&) = delete;  // write nn::clone(module), or load_state_dict
  /// Takes the parameters, buffers and children of a root. Throws ConfigError for a module that has a parent,
  /// hooks or sharded parameters: others refer to it.
  Module(Module&& other);

  /// An error that says what to write: only layers are called.
  template <class... Args>
  void operator()(Args&&...) const = delete;  // derive from nn::Layer<Net>; (*net[0].as<nn::Linear>())(x)

  /// The type's name for summaries and errors ("Linear"): by default that of the class, without namespaces
  /// and template arguments.
  virtual std::string kind() const;
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
  /// The direct children as this module owns them, in order of declaration.
  std::span<const Child> child_entries() const { return children_; }
  /// The parameters and buffers that this module itself declares, in order of declaration.
  /// @{
  std::deque<Entry>& entries() { return entries_; }
  const std::deque<Entry>& entries() const { return entries_; }
  /// @}
  /// The module at a path such as "blocks.3.mlp"; "" is this module. Throws ValueError naming the children
  /// that exist. `get_submodule` is the same, by PyTorch's name.
  /// @{
  Module& at(const std::string& path);
  const Module& at(const std::string& path) const;
  Module& get_submodule(const std::string& path) { return at(path); }
  const Module& get_submodule(const std::string& path) const { return at(path); }
  /// @}
  /// The parameter or buffer at a path such as "blocks.3.mlp.fc.weight". Throws ValueError naming those that
  /// exist.
  /// @{
  Variable get_parameter(const std::string& path) const;
  Variable get_buffer(const std::string& path) const;
  /// @}
  /// This module as an M, null when it is none: `if (auto* linear = module.as<nn::Linear>())`.
  /// @{
  template <class M>
  M* as() {
    return dynamic_cast<M*>(this);
  }
  template <class M>
  const M* as() const {
    return dynamic_cast<const M*>(this);
  }
  /// @}

  /// What holds the parameters of this module and its submodules; null where they hold their own. Found at
  /// the module itself or at its nearest ancestor that has one.
  ParameterStore* store() const;
  /// Leaves the parameters from here down to a store, as sharding does.
  void set_store(std::shared_ptr<ParameterStore> store) { store_ = std::move(store); }

  /// Calls `visit(module)` for this module and everything below it, parents first, in order of declaration.
  /// @{
  void for_each(const std::function<void(Module&)>& visit);
  void for_each(const std::function<void(const Module&)>& visit) const;
  /// @}
  /// Calls `visit(name, entry)` for every parameter and buffer from here down, in order of declaration, with
  /// names relative to this module; tied weights under each of their names.
  void for_each_entry(const std::function<void(const std::string&, const Entry&)>& visit) const;
  /// Calls `change(module)` for everything below this module, then for itself: children before parents.
  /// Returns the module.
  Module& apply(const std::function<void(Module&)>& change);

  /// This module and everything below it, parents first, in order of declaration; with names relative to this
  /// module, "" for itself.
  /// @{
  ModuleRange<Module> modules();
  ModuleRange<const Module> modules() const;
  std::vector<NamedModule> named_modules();
  std::vector<ConstNamedModule> named_modules() const;
  /// @}
  /// The direct children, in order of declaration; with the names that this module gives them.
  /// @{
  ModuleRange<Module> children();
  ModuleRange<const Module> children() const;
  std::vector<NamedModule> named_children();
  std::vector<ConstNamedModule> named_children() const;
  /// @}
  /// All parameters from here down, each once by identity, under names relative to this module as in
  /// `state_dict`; of a sharded module this rank's shards of them. An optimizer takes `parameters()`.
  std::vector<NamedVariable> named_parameters() const;
  /// All buffers from here down, under names relative to this module.
  std::vector<NamedVariable> named_buffers() const;

  /// All parameters from here down, each once by identity under its first full name in the whole model, so
  /// that lists of several submodules go into one optimizer; of a sharded module this rank's shards of them.
  ParameterList parameters() const;
  /// All buffers from here down.
  std::vector<NamedParameter> buffers() const;
  /// Parameters (in mixed precision their f32 masters, and beside them what is computed with) and persistent
  /// buffers, by names relative to this module; tensors share storage with the module.
  StateDict state_dict() const;
  /// Copies values into parameters and buffers; tied weights are found under any of their names. Of a stage
  /// (nn/sequence/hold.h) it takes the state of the whole model or its own. Returns the names that were
  /// missing and unexpected, which is an error with `strict`. All is checked before the first
  /// value is written: throws ValueError for these names and for tied weights given with different values,
  /// ShapeError, DTypeError, each message with every entry that does not fit, DeviceError for a module on
  /// meta, and then loads nothing.
  LoadResult load_state_dict(const StateDict& state, bool strict = true);

  /// Training or evaluation, for this module and everything below (dropout). Returns the module.
  Module& train(bool training = true);
  /// `train(false)`.
  Module& eval() { return train(false); }
  /// The mode; in a checkpointed segment that backward runs again, the mode of its forward.
  bool is_training() const;
  /// Freezes or unfreezes every parameter from here down, sharded or not.
  void set_requires_grad(bool requires_grad);
  /// The same by PyTorch's name. Returns the module.
  Module& requires_grad_(bool requires_grad = true);
  /// Moves or converts every parameter and buffer (floating ones only for a dtype, which ends mixed
  /// precision), and their gradients; Variables keep their identity. On meta a dtype is that of the values
  /// which `nn::materialize` makes. Returns the module. Throws ConfigError for a sharded module, DTypeError
  /// for a dtype that is not floating, DeviceError for a parameter on meta, which has no values to move:
  /// `nn::materialize(module, device, seed)` makes them.
  /// @{
  Module& to(Device device);
  Module& to(DType dtype);
  Module& to(Device device, DType dtype);
  /// @}
  /// Clears the gradients of `parameters()`: they are undefined afterwards.
  void zero_grad() const { parameters().zero_grad(); }

  /// Called before `forward` in each call of the module, as `hook(module, inputs)`. It may replace inputs, by
  /// assignment or by what it returns: a Variable for a single one, or a vector. Hooks of one kind are called
  /// in the order of their registration (with `prepend`, before those registered so far), until `remove` of
  /// the handle; a handle that is destroyed removes none.
  template <class Hook>
  HookHandle register_forward_pre_hook(Hook hook, HookOptions options = {}) {
    return add_forward_pre_hook(detail::replacing<0, const CallVariables&>(std::move(hook)), options);
  }
  /// Called after `forward` in each call that no exception ended (with `always_call`, in each call), as
  /// `hook(module, inputs, outputs)`. It may replace outputs, by assignment or by what it returns.
  ///
  ///     net.at("fc").register_forward_hook([&](nn::Module&, const nn::CallVariables&,
  ///                                            const nn::CallVariables& outputs) { seen = outputs[0]; });
  template <class Hook>
  HookHandle register_forward_hook(Hook hook, ForwardHookOptions options = {}) {
    return add_forward_hook(detail::replacing<1, const CallVariables&, const CallVariables&>(std::move(hook)),
                            options);
  }
  /// Called as `hook(module)`. An exception from such a hook is dropped: the one that ended the call
  /// propagates.
  HookHandle register_forward_failure_hook(ForwardFailureHook hook);

  /// Called as `hook(module, grad_outputs)` once for each call of the module and each backward that reaches
  /// one of its results, before that backward runs anything inside the call, with the gradients of all its
  /// results: that of one that is not in the loss is undefined, and nothing behind it is reached. A hook may
  /// replace a gradient that arrived, by assignment or by what it returns, also by an undefined one;
  /// AutogradError when it gives another shape or dtype, or a gradient where none arrived. A hook is called
  /// if it was registered before the call and not removed since; none is called after the module's
  /// destruction.
  template <class Hook>
  HookHandle register_full_backward_pre_hook(Hook hook, HookOptions options = {}) {
    return add_backward_pre_hook(detail::replacing<0, std::vector<Variable>&>(std::move(hook)), options);
  }
  /// Called as `hook(module, grad_inputs, grad_outputs)` when all gradients of the Variables among the
  /// arguments have arrived, with those of the results too, as backward pre-hooks left them. Where no
  /// argument requires a gradient, it is called before the backward of the call, with undefined
  /// `grad_inputs`. It may replace gradients of arguments as the pre-hook those of results.
  template <class Hook>
  HookHandle register_full_backward_hook(Hook hook, HookOptions options = {}) {
    return add_full_backward_hook(
        detail::replacing<0, std::vector<Variable>&, const std::vector<Variable>&>(std::move(hook)), options);
  }
  /// Called with the gradients of the arguments alone, after the full backward hooks, and not where no
  /// argument requires one: then the backward of the call is done.
  HookHandle register_input_gradient_hook(BackwardHook hook);

  /// From here on, calls of this module that record gradients are segments which backward runs again
  /// (nn/checkpoint_modules.h, `checkpoint_segment`), within the module's hooks; `keep` names operations of
  /// which the results are kept (CheckpointOptions::keep). `false` ends it. A clone does not have it. The
  /// module has to outlive the backward. A call that cannot run again throws ConfigError: one with a pointer
  /// among its arguments, or a reference that it writes to, or a named one without `rerunnable`.
  void set_checkpointed(bool checkpointed, std::vector<std::string> keep = {});
  /// Whether its calls are segments that backward runs again.
  bool is_checkpointed() const;

  /// Whether a hook was registered, or the module checkpointed, or given a parameter that is computed, at any
  /// time: its calls then do more than its own code says.
  bool has_hooks() const { return static_cast<bool>(hooks_); }

 protected:
  /// Declares a parameter: a meta leaf with a recorded initialiser. Throws ConfigError when the name is
  /// taken.
  Variable& parameter(const std::string& name, const Shape& shape, init::Initializer initializer,
                      DType dtype = f32);
  /// Declares a parameter with these values, which `nn::materialize` copies. Throws ValueError for a tensor
  /// on meta, DTypeError for one that is not floating.
  Variable& parameter(const std::string& name, const Tensor& values);
  // clang-format off
  /// Errors that say what to write for PyTorch's names.
  /// @{
  void register_parameter(auto&&...) = delete;  // write Variable& w = parameter("w", {2, 3}, init::normal(0.02)), or parameter("w", tensor)
  void register_buffer(auto&&...) = delete;     // write Variable& b = buffer("b", tensor)
  void register_module(auto&&...) = delete;     // write nn::Linear& fc = add("fc", nn::Linear(2, 3))
  /// @}
  // clang-format on
  /// Declares a parameter that another module owns too: one Variable under two names (tied weights).
  Variable& share_parameter(const std::string& name, const Variable& shared);
  /// Declares a tensor that is not trained.
  Variable& buffer(const std::string& name, const Shape& shape, init::Initializer initializer,
                   DType dtype = f32, bool persistent = true);
  /// The same, filled with what `element(index, shape)` returns, in any dtype (init::elementwise).
  Variable& buffer(const std::string& name, const Shape& shape, init::Element element, DType dtype = f32,
                   bool persistent = true);
  /// Declares a tensor with these values, such as a table computed once: on meta as every buffer, copied by
  /// `nn::materialize`. Throws ValueError for a tensor on meta.
  Variable& buffer(const std::string& name, const Tensor& values, bool persistent = true);
  /// Declares a tensor that a function computes: `values(device)`, or `values()`. `nn::materialize` calls it
  /// with the module's device. It is called here too, with `meta()`, for shape and dtype; what a function
  /// without a device computes here is dropped. It captures what it needs by value, since the module may be
  /// moved before. Throws ValueError where it returns no tensor, or later one of another shape.
  ///
  ///     Variable& cosines = buffer("cos", [o = o](Device d) { return ops::cos(angles(o, d)); });
  template <class Values>
  requires(std::is_invocable_r_v<Tensor, Values&, Device> ||
           std::is_invocable_r_v<Tensor, Values&>) Variable& buffer(const std::string& name, Values values,
                                                                    bool persistent = true) {
    if constexpr (std::is_invocable_r_v<Tensor, Values&, Device>)
      return computed_buffer(name, std::move(values), persistent);
    else
      return computed_buffer(
          name, [values = std::move(values)](Device) mutable -> Tensor { return values(); }, persistent);
  }
  /// Makes a child of type M. `add<nn::Linear>("fc", {.in = 768, .out = 3072})`: options in braces.
  template <class M>
  M& add(const std::string& name, typename M::Options options) {  // fields of these options, in order
    return adopt(name, std::make_unique<M>(std::move(options)));
  }
  /// The same by constructor arguments: `add<nn::LayerNorm>("ln_1", width)`.
  template <class M, class... Args>
  requires std::constructible_from<M, Args...> M& add(const std::string& name, Args&&... args) {
    return adopt(name, std::make_unique<M>(std::forward<Args>(args)...));
  }
  /// Moves a module into the tree: `add("fc", nn::Linear(768, 3072))`. Throws ConfigError as its move does.
  template <ModuleValue M>
  M& add(const std::string& name, M&& module) {
    static_assert(!std::is_reference_v<M>,
                  "a module is moved into its parent: write add(name, std::move(module))");
    return adopt(name, std::make_unique<std::remove_cvref_t<M>>(std::forward<M>(module)));
  }
  /// Makes `module` a child, and returns it. Throws ConfigError for a name that is taken, empty or has a dot.
  template <class M>
  M& adopt(const std::string& name, std::unique_ptr<M> module) {
    M& reference = *module;
    adopt_child(name, std::move(module));
    return reference;
  }

  /// Whether a call, now, is a segment that backward runs again.
  bool runs_as_segment() const;
  /// Runs `segment` as `checkpoint_segment` does, with the module's name and what it keeps.
  void run_segment(std::function<std::vector<Variable>(std::span<const Variable>)> segment,
                   std::vector<Variable> inputs) const;
  /// Throws ConfigError: this module is checkpointed, and the call cannot run again.
  [[noreturn]] void fail_to_run_again() const;
  /// Throws AutogradError: an argument of a call that runs again was changed in place after the first run.
  [[noreturn]] void fail_for_changed_argument() const;

  struct Hooks;
  class HookedBackward;
  /// A call that runs hooks: ended by an exception, it calls the failure hooks.
  class HookedCall {
   public:
    /// Begins a call of `module`; its hooks get it as one that may be changed.
    explicit HookedCall(const Module& module) : module_(const_cast<Module&>(module)) {}
    ~HookedCall() {
      if (!finished_) fail();
    }
    HookedCall(const HookedCall&) = delete;
    HookedCall& operator=(const HookedCall&) = delete;
    /// Calls the forward pre-hooks, then replaces `inputs` by Variables that backward hooks observe.
    void before_forward(std::span<Variable* const> inputs);
    /// Replaces `outputs` by Variables that backward hooks observe, then calls the forward hooks. Unless one
    /// of these throws, no exception ended the call: failure hooks are not called.
    void after_forward(std::span<Variable* const> inputs, std::span<Variable* const> outputs);

   private:
    void fail() noexcept;

    Module& module_;
    std::span<Variable* const> inputs_;  // of the call
    bool results_seen_ = false;  // the forward hooks have been called with the results, or some of them
    std::shared_ptr<HookedBackward> backward_;  // null: without backward hooks
    bool finished_ = false;
  };

  /// A new module of this one's type, made by its constructor from the same options; null where that is not
  /// possible. `nn::clone` calls these.
  /// @{
  virtual std::unique_ptr<Module> construct_again() const { return nullptr; }
  /// Adds a child that `original` has and the constructor did not make; false where the type has none such.
  virtual bool adopt_clone(const Module& original, const std::string& name, std::unique_ptr<Module>& clone);
  /// Copies options that may have changed since the construction of `original`, a module of this type; called
  /// when parameters and children have their values.
  virtual void copy_options(const Module& original);
  /// @}

 private:
  friend class TreeCopy;
  Variable& computed_buffer(const std::string& name, std::function<Tensor(Device)> values, bool persistent);
  HookHandle add_forward_pre_hook(ForwardPreHook hook, HookOptions options);
  HookHandle add_forward_hook(ForwardHook hook, ForwardHookOptions options);
  HookHandle add_backward_pre_hook(BackwardHook hook, HookOptions options);
  HookHandle add_full_backward_hook(FullBackwardHook hook, HookOptions options);
  void adopt_child(const std::string& name, std::unique_ptr<Module> module);
  void require_free_name(const std::string& name) const;
  Hooks& hooks();
  void invalidate_full_names();

  std::string name_;
  mutable std::string full_name_;
  mutable std::atomic<bool> full_name_valid_{false};
  Module* parent_ = nullptr;
  bool training_ = true;
  std::deque<Entry> entries_;  // a deque: `Variable&` members of layers point into it
  std::vector<Child> children_;
  std::shared_ptr<Hooks> hooks_;
  std::shared_ptr<ParameterStore> store_;  // destroyed first: it refers to the module's parameters
};

/// The tree, a module a line, as PyTorch's repr prints it: `name: kind(options)`, children indented, equal
/// neighbours of a list on one line.
/// @{
std::string to_string(const Module& module);
std::ostream& operator<<(std::ostream& out, const Module& module);
/// @}

/// Parameters by identity.
using ParameterSet = std::unordered_set<const VariableImpl*>;
/// Those of `module` and its submodules.
ParameterSet parameters_below(const Module& module);

}  // namespace tessera::nn

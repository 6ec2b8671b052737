#pragma once

#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/recompute/checkpoint.h"
#include "nn/layer.h"
#include "nn/sequence/layer_spec.h"

namespace tessera::nn {

namespace detail {

/// Calls `module`, an M, with one Variable, or with its Tensor where M takes a Tensor (nn::Embedding).
template <class M>
Variable run_step(Module& module, const Variable& x) {
  M& step = static_cast<M&>(module);
  if constexpr (std::is_invocable_r_v<Variable, M&, const Variable&>) {
    return step(x);
  } else {
    static_assert(std::is_invocable_r_v<Variable, M&, const Tensor&>,
                  "a module of nn::Sequential takes one Variable, or one Tensor, and returns a Variable");
    return step(x.value());
  }
}

/// A module by value in a list in braces: `nn::Sequential({nn::Linear(2, 64), nn::ReLU()})`.
template <class Base>
class ListedModule {
 public:
  /// Moves the module.
  template <ModuleValue M>
  requires(std::derived_from<std::remove_cvref_t<M>, Base>) ListedModule(M&& module)
      : module_(std::make_unique<std::remove_cvref_t<M>>(std::forward<M>(module))) {
    static_assert(!std::is_reference_v<M>,
                  "a module is moved into its parent: write std::move(module) in the list");
  }
  /// Gives the module away.
  std::unique_ptr<Base> take() const { return std::move(module_); }

 private:
  mutable std::unique_ptr<Base> module_;  // the elements of a std::initializer_list are constant
};

/// The same for a step of nn::Sequential, with how it is called.
class ListedStep : public ListedModule<Module> {
 public:
  /// Moves the module.
  template <ModuleValue M>
  ListedStep(M&& module)
      : ListedModule<Module>(std::forward<M>(module)), run(&run_step<std::remove_cvref_t<M>>) {}
  Variable (*run)(Module&, const Variable&);  ///< calls the module
};

/// The same with a name.
template <class Base>
struct NamedListedModule {
  std::string name;           ///< without dots
  ListedModule<Base> module;  ///< moved in
};

/// Whether the arguments are one module, which is moved and not passed to a constructor.
template <class... Args>
concept OneModule = sizeof...(Args) == 1 && (ModuleValue<Args> && ...);

}  // namespace detail

/// Modules run one after another, each from one Variable to one. Children are named "0", "1", ... in their
/// order, unless they are given names.
///
///     nn::Sequential net{nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 2)};
///     net.push<nn::Linear>({.in = 2, .out = 8});
class Sequential : public Layer<Sequential> {
 public:
  Sequential() = default;
  /// Moves the modules into the tree.
  /// @{
  template <ModuleValue... M>
  requires(sizeof...(M) > 0) explicit(sizeof...(M) == 1) Sequential(M&&... modules) {
    (push(std::forward<M>(modules)), ...);
  }
  template <size_t n>
  explicit Sequential(detail::ListedStep (&&modules)[n]) {
    for (detail::ListedStep& step : modules) append(next_name(), step.take(), step.run);
  }
  /// @}

  /// Appends a new module and returns it: `push<nn::Linear>({.in = 8, .out = 4})`, options in braces.
  template <class M>
  M& push(typename M::Options options) {
    return append(next_name(), std::make_unique<M>(std::move(options)));
  }
  /// The same by constructor arguments: `push<nn::Dropout>(0.1)`.
  template <class M, class... Args>
  requires(std::constructible_from<M, Args...> && !detail::OneModule<Args...>) M& push(Args&&... args) {
    return append(next_name(), std::make_unique<M>(std::forward<Args>(args)...));
  }
  /// Moves a module to the end and returns it there: `push(nn::ReLU())`; with a name, `push("act",
  /// nn::ReLU())`. `append` is PyTorch's name. Throws ConfigError for a name that is taken.
  /// @{
  template <ModuleValue M>
  M& push(M&& module) {
    return push(next_name(), std::forward<M>(module));
  }
  template <ModuleValue M>
  M& push(const std::string& name, M&& module) {
    static_assert(!std::is_reference_v<M>,
                  "a module is moved into its parent: write push(std::move(module))");
    return append(name, std::make_unique<std::remove_cvref_t<M>>(std::forward<M>(module)));
  }
  template <ModuleValue M>
  M& append(M&& module) {
    return push(std::forward<M>(module));
  }
  /// @}
  /// Number of modules.
  size_t size() const { return steps_.size(); }
  /// Module `i`: `net[0].as<nn::Linear>()`. Throws IndexError.
  Module& operator[](size_t i) const {
    require<IndexError>(i < size(), "Sequential '", full_name(), "': module ", i, " of ", size());
    return *steps_[i].module;
  }
  std::string kind() const override { return "Sequential"; }
  /// The last module's result; without modules x itself.
  Variable forward(const Variable& x) const {
    Variable y = x;
    for (const Step& step : steps_) y = step.run(*step.module, y);
    return y;
  }
  /// Its modules as a list of layers.
  std::vector<LayerSpec> to_layers() const {
    std::vector<LayerSpec> layers;
    for (const Step& step : steps_) {
      layers.push_back(function_layer(step.module->full_name(), {step.module},
                                      [step](const Variable& x) { return step.run(*step.module, x); }));
      layers.back().kind = step.module->kind();
    }
    return layers;
  }

 protected:
  bool adopt_clone(const Module& original, const std::string& name, std::unique_ptr<Module>& clone) override {
    for (const Step& step : static_cast<const Sequential&>(original).steps_)
      if (step.module->name() == name) steps_.push_back({&this->adopt(name, std::move(clone)), step.run});
    return !clone;
  }

 private:
  struct Step {
    Module* module;
    Variable (*run)(Module&, const Variable&);
  };
  std::string next_name() const { return std::to_string(steps_.size()); }
  template <class M>
  M& append(const std::string& name, std::unique_ptr<M> module,
            Variable (*run)(Module&, const Variable&) = &detail::run_step<M>) {
    M& step = adopt(name, std::move(module));
    steps_.push_back({&step, run});
    return step;
  }
  std::vector<Step> steps_;
};

/// How a sequence of layers trades time for memory: of every segment of `interval` layers only the input is
/// kept, and backward runs the segment again (autograd/recompute/checkpoint.h). The layers must live until
/// then.
struct ActivationCheckpointing {
  int64_t interval = 0;                ///< layers per segment; 0 for no checkpointing
  std::vector<std::string> keep = {};  ///< operations whose results are kept too: {"self_attention"}
};

/// Modules named "0", "1", ..., of type M or derived from it. A call of the list, `y = blocks(x)`, runs them
/// one after another; the owner may also call them in any other order. A `ModuleList<>` holds modules of any
/// types and is not called itself; `list[i].as<nn::Linear>()` is a module of a known type.
///
///     nn::ModuleList<nn::Linear> layers{nn::Linear(2, 8), nn::Linear(8, 2)};
///     for (nn::Linear& layer : layers) x = layer(x);
template <class M = Module>
class ModuleList : public Layer<ModuleList<M>> {
  static constexpr bool is_heterogeneous = std::is_same_v<M, Module>;

 public:
  ModuleList() = default;
  /// Moves the modules into the tree.
  /// @{
  template <ModuleValue... Modules>
  requires(sizeof...(Modules) > 0) explicit(sizeof...(Modules) == 1) ModuleList(Modules&&... modules) {
    (push(std::forward<Modules>(modules)), ...);
  }
  template <size_t n>
  explicit ModuleList(detail::ListedModule<M> (&&modules)[n]) {
    for (detail::ListedModule<M>& module : modules) append(module.take());
  }
  /// @}

  /// Appends a new module and returns it: `push({.in = 8, .out = 4})`; of a derived type
  /// `push<nn::Linear>({.in = 8, .out = 4})`.
  template <std::derived_from<M> T = M>
  T& push(typename T::Options options) {
    return append(std::make_unique<T>(std::move(options)));
  }
  /// The same by constructor arguments.
  template <std::derived_from<M> T = M, class... Args>
  requires(std::constructible_from<T, Args...> && !detail::OneModule<Args...>) T& push(Args&&... args) {
    return append(std::make_unique<T>(std::forward<Args>(args)...));
  }
  /// Moves a module to the end and returns it there: `push(nn::Linear(8, 4))`; `append` is PyTorch's name.
  /// @{
  template <ModuleValue T>
  T& push(T&& module) {
    static_assert(!std::is_reference_v<T>,
                  "a module is moved into its parent: write push(std::move(module))");
    return append(std::make_unique<T>(std::forward<T>(module)));
  }
  template <ModuleValue T>
  T& append(T&& module) {
    return push(std::forward<T>(module));
  }
  /// @}
  /// Number of modules.
  size_t size() const { return list_.size(); }
  /// Module `i`, not checked: 0 <= i < size().
  M& operator[](size_t i) const { return *list_[i]; }
  /// Iterators that give the modules by reference: `for (M& module : list)`.
  /// @{
  detail::PointeeIterator<M> begin() const { return detail::PointeeIterator<M>(list_.data()); }
  detail::PointeeIterator<M> end() const { return detail::PointeeIterator<M>(list_.data() + size()); }
  /// @}
  std::string kind() const override { return "ModuleList"; }
  bool is_container() const override { return true; }
  bool has_forward() const override { return !is_heterogeneous; }

  /// Its modules as a list of layers.
  std::vector<LayerSpec> to_layers() const requires(!is_heterogeneous) {
    std::vector<LayerSpec> layers;
    for (M* module : list_) layers.push_back(module_layer(*module));
    return layers;
  }

  /// Applies to calls of the list from now on. Throws ConfigError for a negative interval.
  void set_checkpointing(ActivationCheckpointing checkpointing) {
    require<ConfigError>(checkpointing.interval >= 0,
                         "activation checkpointing: expected an interval of at least 0, got ",
                         checkpointing.interval);
    checkpointing_ = std::move(checkpointing);
  }

  /// The modules one after another, in segments where `set_checkpointing` asked for them.
  Variable forward(const Variable& x) const requires(!is_heterogeneous) {
    const size_t interval = static_cast<size_t>(checkpointing_.interval);
    if (interval == 0) return run(0, size(), x);
    Variable y = x;
    for (size_t first = 0; first < size(); first += interval) {
      const size_t last = std::min(size(), first + interval);
      const Segment segment = [this, first, last](std::span<const Variable> in) {
        return std::vector<Variable>{run(first, last, in[0])};
      };
      y = checkpoint_segment(text(this->full_name(), ".", first), segment, {y}, {checkpointing_.keep})[0];
    }
    return y;
  }

 protected:
  bool adopt_clone(const Module&, const std::string&, std::unique_ptr<Module>& clone) override {
    append(std::unique_ptr<M>(static_cast<M*>(clone.release())));
    return true;
  }
  void copy_options(const Module& original) override {
    checkpointing_ = static_cast<const ModuleList&>(original).checkpointing_;
  }

 private:
  template <class T>
  T& append(std::unique_ptr<T> module) {
    T& added = this->adopt(std::to_string(size()), std::move(module));
    list_.push_back(&added);
    return added;
  }
  Variable run(size_t first, size_t last, Variable x) const {
    for (size_t i = first; i < last; ++i) x = (*list_[i])(x);
    return x;
  }

  ActivationCheckpointing checkpointing_;
  std::vector<M*> list_;
};
/// `ModuleList list{nn::Linear(2, 8), nn::ReLU()}`: of their type where it is one, else of any types.
template <ModuleValue First, ModuleValue... More>
ModuleList(First&&, More&&...)
    -> ModuleList<std::conditional_t<(std::is_same_v<First, More> && ...), First, Module>>;
/// `ModuleList list({nn::Linear(2, 8), nn::Linear(8, 2)})`: modules of one type in braces.
template <ModuleValue T, size_t n>
ModuleList(T (&&)[n]) -> ModuleList<T>;

/// Modules by names, of type M or derived from it; by default of any types. The owner calls them.
///
///     nn::ModuleDict<>& heads = add<nn::ModuleDict<>>("heads");
///     heads.insert("classes", nn::Linear(64, 10));
///     for (auto& [name, head] : heads) ...
template <class M = Module>
class ModuleDict : public Layer<ModuleDict<M>> {
 public:
  ModuleDict() = default;
  /// Moves the modules into the tree: `nn::ModuleDict<> heads{{"classes", nn::Linear(64, 10)}}`. Throws as
  /// `insert`.
  ModuleDict(std::initializer_list<detail::NamedListedModule<M>> modules) {
    for (const detail::NamedListedModule<M>& one : modules) append(one.name, one.module.take());
  }
  /// Adds a new module and returns it: `insert<nn::Linear>("classes", {.in = 64, .out = 10})`. Throws
  /// ConfigError for a name that is taken, empty or has a dot.
  template <std::derived_from<M> T = M>
  T& insert(const std::string& name, typename T::Options options) {
    return append(name, std::make_unique<T>(std::move(options)));
  }
  /// The same by constructor arguments.
  template <std::derived_from<M> T = M, class... Args>
  requires(std::constructible_from<T, Args...> &&
           !detail::OneModule<Args...>) T& insert(const std::string& name, Args&&... args) {
    return append(name, std::make_unique<T>(std::forward<Args>(args)...));
  }
  /// Moves a module in and returns it there: `insert("classes", nn::Linear(64, 10))`.
  template <ModuleValue T>
  T& insert(const std::string& name, T&& module) {
    static_assert(!std::is_reference_v<T>,
                  "a module is moved into its parent: write insert(name, std::move(module))");
    return append(name, std::make_unique<T>(std::forward<T>(module)));
  }
  /// Number of modules.
  size_t size() const { return entries_.size(); }
  /// Whether there is a module of this name.
  bool contains(const std::string& name) const { return find(name) != nullptr; }
  /// The names, in the order of insertion.
  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const NamedModuleOf<M>& entry : entries_) names.push_back(entry.name);
    return names;
  }
  /// The module of this name. Throws ValueError naming those that exist.
  M& operator[](const std::string& name) const {
    if (const NamedModuleOf<M>* entry = find(name)) return entry->module;
    std::string names;
    for (const std::string& key : keys()) names += (names.empty() ? "" : ", ") + key;
    throw ValueError(text("ModuleDict '", this->full_name(), "': no module '", name, "': it has ",
                          names.empty() ? "none" : names));
  }
  /// Iterators over names and modules: `for (auto& [name, module] : dict)`.
  /// @{
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  /// @}
  std::string kind() const override { return "ModuleDict"; }
  bool is_container() const override { return true; }

 protected:
  bool adopt_clone(const Module&, const std::string& name, std::unique_ptr<Module>& clone) override {
    append(name, std::unique_ptr<M>(static_cast<M*>(clone.release())));
    return true;
  }

 private:
  template <class T>
  T& append(const std::string& name, std::unique_ptr<T> module) {
    T& added = this->adopt(name, std::move(module));
    entries_.push_back({name, added});
    return added;
  }
  const NamedModuleOf<M>* find(const std::string& name) const {
    for (const NamedModuleOf<M>& entry : entries_)
      if (entry.name == name) return &entry;
    return nullptr;
  }

  std::vector<NamedModuleOf<M>> entries_;
};

}  // namespace tessera::nn

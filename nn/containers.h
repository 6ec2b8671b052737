#pragma once

#include <algorithm>
#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "autograd/recompute/checkpoint.h"
#include "nn/layer.h"

namespace tessera::nn {

/// Modules run one after another, each from one Variable to one. `seq.push<nn::Linear>({...})`; children
/// are named "0", "1", ...
class Sequential : public Layer<Sequential> {
 public:
  /// Appends a new module and returns it: `push<nn::Linear>({.in = 8, .out = 4})`, options in braces.
  template <class M>
  M& push(typename M::Options options) {
    return append(add<M>(std::to_string(steps_.size()), std::move(options)));
  }
  /// The same by constructor arguments: `push<nn::Dropout>(0.1)`.
  template <class M, class... Args>
  requires std::constructible_from<M, Args...> M& push(Args&&... args) {
    return append(add<M>(std::to_string(steps_.size()), std::forward<Args>(args)...));
  }
  /// Number of modules.
  size_t size() const { return steps_.size(); }
  std::string kind() const override { return "Sequential"; }
  /// The last module's result; without modules x itself.
  Variable forward(const Variable& x) {
    Variable y = x;
    for (const auto& step : steps_) y = step(y);
    return y;
  }

 private:
  template <class M>
  M& append(M& module) {
    steps_.push_back([&module](const Variable& x) -> Variable { return module(x); });
    return module;
  }
  std::vector<std::function<Variable(const Variable&)>> steps_;
};

/// How a sequence of layers trades time for memory: of every segment of `interval` layers only the input is
/// kept, and backward runs the segment again (autograd/recompute/checkpoint.h). The layers must live until
/// then.
struct ActivationCheckpointing {
  int64_t interval = 0;                ///< layers per segment; 0 for no checkpointing
  std::vector<std::string> keep = {};  ///< operations whose results are kept too: {"self_attention"}
};

/// Modules of one type, named "0", "1", ... A call of the list, `y = blocks(x)`, runs them one after another;
/// the owner may also call them in any other order.
template <class M>
class ModuleList : public Layer<ModuleList<M>> {
 public:
  /// Appends a new module and returns it.
  M& push(typename M::Options options) {
    list_.push_back(&this->template add<M>(std::to_string(list_.size()), std::move(options)));
    return *list_.back();
  }
  /// Number of modules.
  size_t size() const { return list_.size(); }
  /// Module `i`, not checked: 0 <= i < size().
  M& operator[](size_t i) const { return *list_[i]; }
  /// Iterators over pointers to the modules: `for (M* module : list)`.
  /// @{
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  /// @}
  std::string kind() const override { return "ModuleList"; }
  bool is_container() const override { return true; }

  /// Applies to calls of the list from now on. Throws ConfigError for a negative interval.
  void set_checkpointing(ActivationCheckpointing checkpointing) {
    require<ConfigError>(checkpointing.interval >= 0,
                         "activation checkpointing: expected an interval of at least 0, got ",
                         checkpointing.interval);
    checkpointing_ = std::move(checkpointing);
  }

  /// The modules one after another, in segments where `set_checkpointing` asked for them.
  Variable forward(const Variable& x) {
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

 private:
  Variable run(size_t first, size_t last, Variable x) {
    for (size_t i = first; i < last; ++i) x = (*list_[i])(x);
    return x;
  }

  ActivationCheckpointing checkpointing_;
  std::vector<M*> list_;
};

}  // namespace tessera::nn

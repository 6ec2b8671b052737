#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "nn/layer.h"

namespace tessera::nn {

/// Modules run one after another, each a call of one Variable to one. `seq.push<nn::Linear>({...})`; children
/// are named "0", "1", ...
class Sequential : public Layer<Sequential> {
 public:
  template <class M>
  M& push(typename M::Options options) {
    return keep(add<M>(std::to_string(steps_.size()), std::move(options)));
  }
  template <class M, class... Args>
  requires std::constructible_from<M, Args...> M& push(Args&&... args) {
    return keep(add<M>(std::to_string(steps_.size()), std::forward<Args>(args)...));
  }
  size_t size() const { return steps_.size(); }
  std::string kind() const override { return "Sequential"; }
  Variable forward(const Variable& x) {
    Variable y = x;
    for (const auto& step : steps_) y = step(y);
    return y;
  }

 private:
  template <class M>
  M& keep(M& module) {
    steps_.push_back([&module](const Variable& x) -> Variable { return module(x); });
    return module;
  }
  std::vector<std::function<Variable(const Variable&)>> steps_;
};

/// Modules of one type, named "0", "1", ...; how they run is their owner's business.
template <class M>
class ModuleList : public Module {
 public:
  M& push(typename M::Options options) {
    list_.push_back(&add<M>(std::to_string(list_.size()), std::move(options)));
    return *list_.back();
  }
  size_t size() const { return list_.size(); }
  M& operator[](size_t i) const { return *list_[i]; }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  std::string kind() const override { return "ModuleList"; }

 private:
  std::vector<M*> list_;
};

}  // namespace tessera::nn

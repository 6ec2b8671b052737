#pragma once

#include <array>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/anomaly.h"
#include "nn/module.h"

namespace tessera::nn {

/// Finds the Variables in an argument or result: a Variable, or a vector, optional, pair or tuple of such.
/// Others carry none. A struct of one's own joins by a member `for_each_variable(visit)`.
template <class T>
void collect_variables(T& value, std::vector<Variable*>& found) {
  if constexpr (std::is_same_v<T, Variable>)
    found.push_back(&value);
  else if constexpr (requires { value.for_each_variable([](Variable&) {}); })
    value.for_each_variable([&found](Variable& x) { found.push_back(&x); });
}
template <class T>
void collect_variables(std::vector<T>& values, std::vector<Variable*>& found) {
  for (T& value : values) collect_variables(value, found);
}
template <class T>
void collect_variables(std::optional<T>& value, std::vector<Variable*>& found) {
  if (value) collect_variables(*value, found);
}
template <class... T>
void collect_variables(std::tuple<T...>& values, std::vector<Variable*>& found) {
  std::apply([&found](T&... value) { (collect_variables(value, found), ...); }, values);
}
template <class A, class B>
void collect_variables(std::pair<A, B>& values, std::vector<Variable*>& found) {
  collect_variables(values.first, found);
  collect_variables(values.second, found);
}

/// A Module whose call runs hooks around `Derived::forward`, of any signature: `y = layer(x)`. Never call
/// `forward` itself: what reads parameters goes through the call, so that sharding, checkpointing and
/// profiling see it.
///
///     struct Doubler : nn::Layer<Doubler> {
///       Variable forward(const Variable& x) { return x + x; }
///     };
template <class Derived>
class Layer : public Module {
 public:
  // Self is Derived, as a parameter: clang 14 would look into Derived before it is complete.
  template <class... Args, class Self = Derived>
  requires requires(Self& layer, Args&&... args) { layer.forward(std::forward<Args>(args)...); }
  auto operator()(Args&&... args) {
    NamedScope scope(full_name());
    if (!has_hooks()) [[likely]]
      return self().forward(std::forward<Args>(args)...);
    return call_with_hooks(std::forward<Args>(args)...);
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }

  template <class... Args>
  auto call_with_hooks(Args&&... args) {
    // Copies of the arguments' handles: hooks may replace them without the caller noticing. What cannot be
    // copied (caches, modules) is passed on as it is; it carries no Variable that a hook could want.
    std::tuple<std::conditional_t<std::is_copy_constructible_v<std::remove_cvref_t<Args>> &&
                                      !(std::is_lvalue_reference_v<Args> &&
                                        !std::is_const_v<std::remove_reference_t<Args>> &&
                                        !std::is_same_v<std::remove_cvref_t<Args>, Variable>),
                                  std::remove_cvref_t<Args>, Args &&>...>
    copies(std::forward<Args>(args)...);
    std::vector<Variable*> inputs, outputs;
    std::apply([&inputs](auto&... argument) { (collect_variables(argument, inputs), ...); }, copies);
    before_forward(inputs);
    using Result = decltype(self().forward(std::forward<Args>(args)...));
    if constexpr (std::is_void_v<Result>) {
      std::apply([this](auto&... argument) { self().forward(argument...); }, copies);
      after_forward({});
    } else {
      Result result = std::apply([this](auto&... argument) { return self().forward(argument...); }, copies);
      collect_variables(result, outputs);
      after_forward(outputs);
      return result;
    }
  }
};

}  // namespace tessera::nn

#pragma once

#include <functional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/module_range.h"

/// What a module's hooks are called with. Registered by `Module::register_forward_hook` and its like.
namespace tessera::nn {

/// The Variables among a call's arguments, or results, in order. `variables[0] = ...` replaces one in the
/// call. A Tensor is among them where the module takes a Variable; other arguments, such as a Tensor of ids
/// that the module takes as one, are not.
class CallVariables {
 public:
  /// Those at these addresses.
  explicit CallVariables(std::span<Variable* const> variables) : variables_(variables) {}
  /// Their number.
  size_t size() const { return variables_.size(); }
  /// Whether there are none.
  bool empty() const { return variables_.empty(); }
  /// Variable `i`, to read or to replace. Throws IndexError for one that the call does not have.
  Variable& operator[](size_t i) const;
  /// Iterators that give `Variable&`.
  /// @{
  detail::PointeeIterator<Variable> begin() const {
    return detail::PointeeIterator<Variable>(variables_.data());
  }
  detail::PointeeIterator<Variable> end() const {
    return detail::PointeeIterator<Variable>(variables_.data() + variables_.size());
  }
  /// @}
  /// Replaces all of them, as a value that a hook returns does; an undefined Variable, or an empty vector,
  /// leaves them. Throws ValueError for another number of Variables.
  /// @{
  void replace(const Variable& by) const;
  void replace(const std::vector<Variable>& by) const;
  /// @}
  /// Their addresses.
  operator std::span<Variable* const>() const { return variables_; }

 private:
  std::span<Variable* const> variables_;
};

/// "[(2, 3) f32 on cpu, (4,) f32 on cpu]".
std::string to_string(const CallVariables& variables);
/// The same, for `std::cout << outputs`.
std::ostream& operator<<(std::ostream& out, const CallVariables& variables);

/// Receives a call's Variables before it runs, and may replace them.
using ForwardPreHook = std::function<void(Module& module, const CallVariables& inputs)>;
/// Receives a call's Variables after it ran, and may replace the results.
using ForwardHook =
    std::function<void(Module& module, const CallVariables& inputs, const CallVariables& outputs)>;
/// Options of a forward pre-hook, or of a backward hook.
struct HookOptions {
  bool prepend = false;  ///< called before the hooks of its kind that are registered already
};
/// Options of a forward hook.
struct ForwardHookOptions {
  bool prepend = false;  ///< called before the forward hooks that are registered already
  /// Called also where an exception ends the call: of a hook, with the results, or of anything before,
  /// without results. What it throws then is dropped; the exception that ended the call propagates.
  bool always_call = false;
};
/// Called in the place of forward hooks when an exception ended the call.
using ForwardFailureHook = std::function<void(Module& module)>;
/// Receives gradients, one per Variable of the call's results, or arguments, undefined where this backward
/// has none, and may replace the defined ones.
using BackwardHook = std::function<void(Module& module, std::vector<Variable>& gradients)>;
/// Receives the gradients of a call's arguments, and those of its results, and may replace the former.
using FullBackwardHook = std::function<void(Module& module, std::vector<Variable>& grad_inputs,
                                            const std::vector<Variable>& grad_outputs)>;

namespace detail {

/// Puts what a hook returned in the place of the call's Variables, or of gradients.
/// @{
template <class Returned>
void replace(const CallVariables& target, const Returned& returned) {
  target.replace(returned);
}
template <class Returned>
void replace(std::vector<Variable>& target, const Returned& returned) {
  if constexpr (std::is_convertible_v<Returned, Variable>) {
    const Variable gradient = returned;
    if (gradient.defined()) target = {gradient};
  } else if (!returned.empty()) {
    target = returned;
  }
}
/// @}

/// `hook` without a result: what it returns replaces the argument at this index.
template <size_t replaced, class... Args, class Hook>
std::function<void(Module&, Args...)> replacing(Hook hook) {
  static_assert(
      std::is_invocable_v<Hook&, Module&, Args...>,
      "a hook is called with these arguments: forward pre-hook (nn::Module&, const nn::CallVariables& "
      "inputs), forward hook (nn::Module&, const nn::CallVariables& inputs, const nn::CallVariables& "
      "outputs), full backward hook (nn::Module&, std::vector<Variable>& grad_inputs, const "
      "std::vector<Variable>& grad_outputs), backward pre-hook (nn::Module&, std::vector<Variable>& "
      "grad_outputs)");
  if constexpr (std::is_invocable_v<Hook&, Module&, Args...>) {
    using Returned = std::invoke_result_t<Hook&, Module&, Args...>;
    if constexpr (std::is_void_v<Returned>) {
      return hook;
    } else {
      static_assert(
          std::is_convertible_v<Returned, Variable> || std::is_convertible_v<Returned, std::vector<Variable>>,
          "a hook returns nothing, a Variable, or a std::vector<Variable>, which replace the call's");
      return [hook = std::move(hook)](Module& module, Args... args) mutable {
        const Returned returned = hook(module, args...);
        replace(std::get<replaced>(std::tie(args...)), returned);
      };
    }
  }
}

}  // namespace detail

}  // namespace tessera::nn

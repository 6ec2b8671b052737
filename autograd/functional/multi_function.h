#pragma once

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/variable.h"

namespace tessera {
namespace detail {

/// What a user's function returned, as a list: a Variable, a Tensor, or a list of Variables.
template <class Result>
std::vector<Variable> as_list(Result&& result) {
  if constexpr (std::is_convertible_v<Result, Variable>)
    return {Variable(std::forward<Result>(result))};
  else
    return std::vector<Variable>(std::forward<Result>(result));
}

/// Whether F takes N Variables.
template <class F, size_t... I>
constexpr bool takes_variables(std::index_sequence<I...>) {
  return std::is_invocable_v<F&, decltype((void(I), std::declval<const Variable&>()))...>;
}

/// The number of Variables that F takes, up to eight; 0 where it takes a list.
template <class F, size_t N = 1>
constexpr size_t variables_taken() {
  if constexpr (N > 8)
    return 0;
  else if constexpr (takes_variables<F>(std::make_index_sequence<N>{}))
    return N;
  else
    return variables_taken<F, N + 1>();
}

/// Throws ValueError unless as many inputs are given as the function takes.
void require_inputs(size_t taken, size_t given);

}  // namespace detail

namespace autograd {

/// A function of Variables: a callable of one to eight Variables, or of a list of them
/// (`const std::vector<Variable>&`, `std::span<const Variable>`), that returns a Variable or a list. A call
/// throws ValueError when the number of inputs is not the callable's.
class MultiFunction {
 public:
  /// Holds a copy of `function`.
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, MultiFunction> &&
           (detail::variables_taken<F>() > 0 || std::is_invocable_v<F&, const std::vector<Variable>&>))
      MultiFunction(F function)
      : call_([function = std::move(function)](const std::vector<Variable>& inputs) mutable {
          constexpr size_t taken = detail::variables_taken<F>();
          if constexpr (taken == 0) {
            return detail::as_list(function(inputs));
          } else {
            detail::require_inputs(taken, inputs.size());
            return [&]<size_t... I>(std::index_sequence<I...>) {
              return detail::as_list(function(inputs[I]...));
            }
            (std::make_index_sequence<taken>{});
          }
        }) {}

  /// The results for `inputs`.
  std::vector<Variable> operator()(const std::vector<Variable>& inputs) const { return call_(inputs); }

 private:
  std::function<std::vector<Variable>(const std::vector<Variable>& inputs)> call_;
};

/// A function of one Variable with one result.
template <class F>
concept UnaryFunction = std::is_invocable_r_v<Variable, F&, const Variable&>;

}  // namespace autograd
}  // namespace tessera

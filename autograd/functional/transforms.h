#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/functional/derivatives.h"
#include "autograd/functional/multi_function.h"
#include "autograd/grad_mode.h"
#include "autograd/variable.h"
#include "tensor/batched/batched.h"

/// Functions of functions, as torch.func: `grad(f)` is the function that computes the gradient of f,
/// `vmap(f)` the one that applies f to every sample of a batch. They combine:
///
///     const auto per_sample = functional::vmap(functional::grad(loss), {.in_dims = {std::nullopt, 0, 0}});
///     const Variable gradients = per_sample(weight, x, y);  // (B, ...weight's shape)
namespace tessera::autograd::functional {

namespace detail {

/// Whether F returns one Variable, not a list.
template <class F>
constexpr bool returns_one() {
  constexpr size_t taken = tessera::detail::variables_taken<F>();
  if constexpr (taken == 0)
    return std::is_convertible_v<std::invoke_result_t<F&, const std::vector<Variable>&>, Variable>;
  else
    return []<size_t... I>(std::index_sequence<I...>) {
      return std::is_convertible_v<
          std::invoke_result_t<F&, decltype((void(I), std::declval<const Variable&>()))...>, Variable>;
    }
  (std::make_index_sequence<taken>{});
}

}  // namespace detail

/// A function that `grad`, `value_and_grad` or `vmap` made. It takes the arguments of the given function:
/// `taken` Variables, or a list where that is 0; it returns one Variable, or a list.
template <size_t taken, bool one_result>
class Transformed {
 public:
  /// Calls `function`.
  explicit Transformed(MultiFunction function) : function_(std::move(function)) {}

  /// The result, or results.
  /// @{
  template <std::convertible_to<Variable>... Inputs>
  requires(sizeof...(Inputs) == taken && taken > 0) auto operator()(const Inputs&... inputs) const {
    return result(function_(std::vector<Variable>{Variable(inputs)...}));
  }
  auto operator()(const std::vector<Variable>& inputs) const { return result(function_(inputs)); }
  /// @}

 private:
  static auto result(std::vector<Variable> results) {
    if constexpr (one_result)
      return std::move(results[0]);
    else
      return results;
  }

  MultiFunction function_;
};

/// Which random numbers the samples draw: `Randomness::error`, `different` or `same`.
using Randomness = batched::Randomness;

/// Which dimension holds the samples, and how the function runs.
struct VmapOptions {
  /// Of each input: the dimension of the samples, counted from the end when negative; nullopt: the input is
  /// the same for every sample. Empty: dimension 0 of each.
  std::vector<std::optional<int64_t>> in_dims = {};
  /// Of the results.
  int64_t out_dim = 0;
  /// Of random numbers inside the function, such as `randn({3})` and dropout: a ValueError, numbers of its
  /// own for each sample, or the same for all. A call with a key of its own (`ops::fill_normal(x, key)`)
  /// draws the same.
  Randomness randomness = Randomness::error;
  /// Called with the name of the operation for which a call fell back to a loop over the samples.
  std::function<void(const std::string& operation)> on_fallback = {};
  /// Runs the loop at once, as if every operation had no rule; `on_fallback` is not called.
  bool always_loop = false;
};

namespace detail {
/// What the functions below compute.
/// @{
std::vector<Variable> value_and_gradients(const MultiFunction& function, const std::vector<Variable>& inputs,
                                          const std::vector<size_t>& argnums);
std::vector<Variable> gradients(const MultiFunction& function, const std::vector<Variable>& inputs,
                                const std::vector<size_t>& argnums);
std::vector<Variable> apply_to_samples(const MultiFunction& function, const std::vector<Variable>& inputs,
                                       const VmapOptions& options);
/// @}
}  // namespace detail

/// The function that computes the gradient of `function`, which returns one element, by argument `argnum`; by
/// several arguments: a list. The other arguments may be of any dtype. A result is zeros where the function
/// does not depend on the argument. While operations are recorded so is the result, which may be
/// differentiated again; under NoGrad, f runs recorded, and its rules may take their faster forms. A call
/// throws ShapeError unless f returns one element, IndexError for an `argnum` that is not an argument, and
/// DTypeError for one of integers.
/// @{
template <class F>
auto grad(F function, size_t argnum = 0) {
  constexpr size_t taken = tessera::detail::variables_taken<F>();
  return Transformed<taken, true>(
      [function = MultiFunction(std::move(function)), argnum](const std::vector<Variable>& inputs) {
        return detail::gradients(function, inputs, {argnum});
      });
}
template <class F>
auto grad(F function, std::vector<size_t> argnums) {
  constexpr size_t taken = tessera::detail::variables_taken<F>();
  return Transformed<taken, false>([function = MultiFunction(std::move(function)),
                                    argnums = std::move(argnums)](const std::vector<Variable>& inputs) {
    return detail::gradients(function, inputs, argnums);
  });
}
/// @}

/// As `grad`, for a list of the function's result and its gradients.
template <class F>
auto value_and_grad(F function, std::vector<size_t> argnums = {0}) {
  constexpr size_t taken = tessera::detail::variables_taken<F>();
  return Transformed<taken, false>([function = MultiFunction(std::move(function)),
                                    argnums = std::move(argnums)](const std::vector<Variable>& inputs) {
    return detail::value_and_gradients(function, inputs, argnums);
  });
}

/// The function that applies `function` to every sample: its inputs have one more dimension, which holds the
/// samples, and so have its results. `function` runs once, on Variables with the shape of one sample and the
/// values of all, and each kernel computes for all samples (tensor/batched/README.md). Where an operation has
/// no rule for that, or its result is read (`item()`), the call starts again as a loop over the samples:
/// `on_fallback` names the operation. So `function` must have no effects but its results. Gradients, `grad`
/// and `jacobian` inside and outside are those of the loop. A sample is one of several views of an input:
/// `function` must not change it in place. A call throws ValueError for other numbers of inputs and in_dims,
/// no input with samples, no samples, or random numbers (`randomness`); ShapeError for different numbers of
/// samples, and in a loop for results of different shapes; IndexError for a dimension that an input does not
/// have.
template <class F>
auto vmap(F function, VmapOptions options = {}) {
  constexpr size_t taken = tessera::detail::variables_taken<F>();
  constexpr bool one_result = detail::returns_one<F>();
  return Transformed<taken, one_result>(
      MultiFunction([function = MultiFunction(std::move(function)),
                     options = std::move(options)](const std::vector<Variable>& inputs) {
        return detail::apply_to_samples(function, inputs, options);
      }));
}
/// `vmap(f, x)` does not compile: `vmap(f)` is a function, which takes x.
template <class F, std::convertible_to<Variable>... Inputs>
requires(sizeof...(Inputs) > 0) Variable vmap(const F&, const Inputs&...) {
  static_assert(
      sizeof...(Inputs) == 0,
      "vmap(f) is a function of the batch: write vmap(f)(x), or vmap(f, {.in_dims = {0, 1}})(x, y)");
  return {};
}

/// The function that computes the Jacobian or the Hessian of `function`, which takes one Variable, as
/// torch.func.jacrev and hessian. While operations are recorded so is the result. A call throws as `jacobian`
/// and `hessian`.
/// @{
template <UnaryFunction F>
auto jacrev(F function) {
  return [function = std::move(function)](const Variable& x) {
    return jacobian(function, x, {.create_graph = grad_mode()});
  };
}
template <UnaryFunction F>
auto hessian(F function) {
  return [function = std::move(function)](const Variable& x) {
    return hessian(function, x, {.create_graph = grad_mode()});
  };
}
/// @}

}  // namespace tessera::autograd::functional

namespace tessera {

// As torch.vmap: `vmap(f)(x)`. The other functions of functions stay in autograd::functional, as they are in
// torch.func: `grad(f)` beside `grad(results, inputs)` would be another function of one name.
using autograd::functional::Randomness;
using autograd::functional::vmap;

}  // namespace tessera

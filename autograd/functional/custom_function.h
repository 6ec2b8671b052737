#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "autograd/functional/context.h"
#include "autograd/functional/multi_function.h"
#include "autograd/variable.h"
#include "tensor/function_ref.h"

/// Functions with a backward of their own, in PyTorch's two forms: a class with two static functions, and two
/// lambdas. Both run the forward without recording, and record it as one operation. The arguments may be of
/// any type: Variables, Tensors and lists of Variables are the inputs. The backward takes the gradient of
/// each output and returns one for each argument (each element of a list), undefined where none is needed.
///
/// A call throws AutogradError when the forward changes an input in place, and ValueError for an undefined
/// output. Backward throws AutogradError when the number of gradients differs from that of arguments or when
/// one belongs to an argument that is not a Variable, and ShapeError for a gradient without the input's
/// shape.
namespace tessera {
namespace detail {

/// The backward of a custom function, in its general form.
using CustomBackward =
    std::function<std::vector<Variable>(AutogradContext& ctx, std::vector<Variable> grad_outputs)>;

/// One call of a custom function.
struct CustomCall {
  const char* name;                         ///< lives as long as the program
  bool once_differentiable;                 ///< its backward cannot be differentiated
  std::vector<Variable> inputs = {};        ///< the arguments that are Variables
  std::vector<int> input_of_argument = {};  ///< per argument its index in `inputs`; -1: not a Variable
};

/// Runs `forward` without recording and records the results as one operation. `backward` makes the function
/// that the node keeps, and is called only where one is recorded.
std::vector<Variable> call_custom(CustomCall call,
                                  FunctionRef<std::vector<Variable>(AutogradContext&)> forward,
                                  FunctionRef<CustomBackward()> backward);

/// The name of a class without its namespaces, stored for the program's lifetime.
const char* class_name(const std::type_info& type);

template <class Argument>
void add_argument(CustomCall& call, const Argument& argument) {
  if constexpr (std::is_convertible_v<const Argument&, Variable>) {
    call.input_of_argument.push_back(static_cast<int>(call.inputs.size()));
    call.inputs.push_back(argument);
  } else if constexpr (std::is_same_v<Argument, std::vector<Variable>>) {
    for (const Variable& element : argument) add_argument(call, element);
  } else {
    call.input_of_argument.push_back(-1);
  }
}

/// The outputs in the form in which the forward returned them: one, or a list.
template <class Result>
auto like_result(std::vector<Variable> outputs) {
  if constexpr (std::is_convertible_v<Result, Variable>)
    return std::move(outputs[0]);
  else
    return outputs;
}

template <class T>
const char* function_name() {
  if constexpr (requires { static_cast<const char*>(T::name); }) {
    return T::name;
  } else {
    static const char* const name = class_name(typeid(T));
    return name;
  }
}

template <class T>
constexpr bool is_once_differentiable() {
  if constexpr (requires { static_cast<bool>(T::once_differentiable); })
    return T::once_differentiable;
  else
    return false;
}

}  // namespace detail

namespace autograd {

/// What a custom function's forward passes to its backward.
using Context = AutogradContext;

/// The base of a custom function written as a class:
///
///     struct Cube : autograd::Function<Cube> {
///       static Variable forward(AutogradContext* ctx, const Variable& x) {
///         ctx->save_for_backward({x});
///         return x * x * x;
///       }
///       static std::vector<Variable> backward(AutogradContext* ctx, std::vector<Variable> dy) {
///         const Variable x = ctx->get_saved_variables()[0];
///         return {dy[0] * x * x * 3};
///       }
///     };
///     const Variable y = Cube::apply(x);
///
/// `forward` returns a Variable or a list of them. The class's name is the operation's, unless the class has
/// a member `static constexpr const char* name`. With `static constexpr bool once_differentiable = true` the
/// backward runs without recording, and a second derivative through it throws AutogradError.
template <class T>
struct Function {
  /// Calls `T::forward(ctx, arguments...)`, and returns what it returns.
  template <class... Arguments>
  static auto apply(const Arguments&... arguments) {
    using Result = decltype(T::forward(std::declval<AutogradContext*>(), arguments...));
    detail::CustomCall call{detail::function_name<T>(), detail::is_once_differentiable<T>()};
    (detail::add_argument(call, arguments), ...);
    return detail::like_result<Result>(detail::call_custom(
        std::move(call),
        [&](AutogradContext& ctx) { return detail::as_list(T::forward(&ctx, arguments...)); },
        []() -> detail::CustomBackward {
          return [](AutogradContext& ctx, std::vector<Variable> grad_outputs) {
            return detail::as_list(T::backward(&ctx, std::move(grad_outputs)));
          };
        }));
  }
};

/// Options of `function`.
struct FunctionOptions {
  /// The backward runs without recording, and a second derivative through it throws AutogradError.
  bool once_differentiable = false;
};

/// A custom function of two lambdas. See `function`.
template <class Forward, class Backward>
class LambdaFunction {
 public:
  /// `name`: a string literal.
  LambdaFunction(const char* name, Forward forward, Backward backward, FunctionOptions options)
      : name_(name),
        forward_(std::move(forward)),
        backward_(std::make_shared<const Backward>(std::move(backward))),
        options_(options) {}

  /// Calls the forward, and returns what it returns: a Variable or a list of them.
  template <class... Arguments>
  auto operator()(const Arguments&... arguments) const {
    using Result = std::invoke_result_t<const Forward&, AutogradContext&, const Arguments&...>;
    detail::CustomCall call{name_, options_.once_differentiable};
    (detail::add_argument(call, arguments), ...);
    return detail::like_result<Result>(detail::call_custom(
        std::move(call), [&](AutogradContext& ctx) { return detail::as_list(forward_(ctx, arguments...)); },
        [this] { return general_backward<Result>(); }));
  }

 private:
  template <class Result>
  detail::CustomBackward general_backward() const {
    return [backward = backward_](AutogradContext& ctx, std::vector<Variable> grad_outputs) {
      constexpr bool one_output = std::is_convertible_v<Result, Variable>;
      if constexpr (one_output && std::is_invocable_v<const Backward&, AutogradContext&, const Variable&>)
        return detail::as_list((*backward)(ctx, grad_outputs[0]));
      else
        return detail::as_list((*backward)(ctx, std::move(grad_outputs)));
    };
  }

  const char* name_;
  Forward forward_;
  std::shared_ptr<const Backward> backward_;
  FunctionOptions options_;
};

/// A custom function of a forward and a backward:
///
///     const auto cube = autograd::function(
///         "cube",
///         [](autograd::Context& ctx, const Variable& x) {
///           ctx.save(x);
///           return x * x * x;
///         },
///         [](autograd::Context& ctx, const Variable& dy) {
///           const Variable x = ctx.saved(0);
///           return dy * x * x * 3;
///         });
///     const Variable y = cube(x);
///
/// `name` is a string literal. The forward returns a Variable, or a list of several. The backward of a
/// function with one output may take its gradient as a Variable, others take a list; it returns a Variable,
/// or a list where there are several arguments. Graphs hold the backward, and what it captures.
template <class Forward, class Backward>
LambdaFunction<Forward, Backward> function(const char* name, Forward forward, Backward backward,
                                           FunctionOptions options = {}) {
  return {name, std::move(forward), std::move(backward), options};
}

}  // namespace autograd
}  // namespace tessera

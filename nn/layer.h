#pragma once

#include <concepts>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/debug/anomaly.h"
#include "nn/module.h"

namespace tessera::nn {

namespace detail {

template <class T>
concept VisitsVariables = requires(T& value) {
  value.for_each_variable([](Variable&) {});
};
/// Whether `collect_variables` can find Variables in a T, as far as the type decides it.
template <class T>
struct CarriesVariables : std::bool_constant<std::is_same_v<T, Variable> || VisitsVariables<T>> {};
template <class T>
struct CarriesVariables<std::optional<T>> : CarriesVariables<T> {};
/// A std::variant, without its header.
template <template <class...> class Variant, class... T>
requires requires(Variant<T...>& choice) {
  choice.valueless_by_exception();
}
struct CarriesVariables<Variant<T...>> : std::disjunction<CarriesVariables<T>...> {};
template <class... T>
struct CarriesVariables<std::tuple<T...>> : std::disjunction<CarriesVariables<T>...> {};
template <class A, class B>
struct CarriesVariables<std::pair<A, B>> : std::disjunction<CarriesVariables<A>, CarriesVariables<B>> {};
/// The type of the elements of a container.
template <class T>
using ElementOf = std::remove_cvref_t<decltype(*std::begin(std::declval<T&>()))>;
/// A container that gives references to its elements, and is not its own element type (as a path is).
/// (std::ranges has these concepts, in a header that doubles the compile time of this one.)
template <class T>
concept HoldsElements = !VisitsVariables<T> && requires(T & all) {
  std::end(all);
  requires std::is_lvalue_reference_v<decltype(*std::begin(all))>;
  requires !std::is_same_v<ElementOf<T>, T>;
};
template <HoldsElements T>
struct CarriesVariables<T> : CarriesVariables<ElementOf<T>> {};

/// Whether T declares or inherits a member named `forward`: with a second one from another base, the lookup
/// is ambiguous.
struct NamesForward {
  int forward;
};
template <class T>
struct WithForward : T, NamesForward {};
template <class T>
concept HasForward = std::is_final_v<T> || !requires {
  &WithForward<T>::forward;
};

/// `layer.forward` as a function.
template <class L>
struct ForwardOf {
  L& layer;
  template <class... Args>
  auto operator()(Args&&... args) const -> decltype(layer.forward(std::forward<Args>(args)...)) {
    return layer.forward(std::forward<Args>(args)...);
  }
};

/// Whether `layer.forward(args...)` is valid for a layer of type L, which may be const.
template <class L, class... Args>
concept CallsForward = requires(L& layer, Args&&... args) {
  layer.forward(std::forward<Args>(args)...);
};
template <class L>
inline constexpr bool forward_is_const = false;

/// Whether a T refers to what a caller may destroy before backward.
template <class T>
struct RefersToCaller : std::is_pointer<T> {};
template <class T, size_t extent>
struct RefersToCaller<std::span<T, extent>> : std::true_type {};
template <class T, class Traits>
struct RefersToCaller<std::basic_string_view<T, Traits>> : std::true_type {};
template <class T>
struct RefersToCaller<std::reference_wrapper<T>> : std::true_type {};
template <class T>
struct RefersToCaller<std::optional<T>> : RefersToCaller<T> {};
template <class A, class B>
struct RefersToCaller<std::pair<A, B>> : std::disjunction<RefersToCaller<A>, RefersToCaller<B>> {};
template <class... T>
struct RefersToCaller<std::tuple<T...>> : std::disjunction<RefersToCaller<T>...> {};
template <HoldsElements T>
struct RefersToCaller<T> : RefersToCaller<ElementOf<T>> {};

/// What `rerunnable` returns.
template <class Body>
struct RerunnableBody {
  Body body;
  template <class... Args>
  auto operator()(Args&&... args) const -> decltype(body(std::forward<Args>(args)...)) {
    return body(std::forward<Args>(args)...);
  }
};
template <class Body>
inline constexpr bool is_rerunnable = false;
template <class L>
inline constexpr bool is_rerunnable<ForwardOf<L>> = true;
template <class Body>
inline constexpr bool is_rerunnable<RerunnableBody<Body>> = true;
/// Whether a call with this body, and with arguments of which Copies is a tuple, can run again in backward,
/// on copies of them: of what it got by reference the body reads a constant.
template <class Body, class Copies>
struct RunsAgain : std::false_type {};
template <class Body, class... T>
requires is_rerunnable<Body>
struct RunsAgain<Body, std::tuple<T...>>
    : std::bool_constant<
          (std::is_copy_constructible_v<std::remove_cvref_t<T>> && ...) &&
          !(RefersToCaller<std::remove_cvref_t<T>>::value || ...) &&
          std::is_invocable_v<const Body&, std::conditional_t<std::is_reference_v<T>,
                                                              const std::remove_cvref_t<T>&, T&>...>> {
};
/// Whether L has its options as `o`.
template <class L>
concept HasOptions = requires(L& layer) {
  layer.o;
};

/// The values of a tuple that may hold references.
template <class Copies>
struct ValuesOf;
template <class... T>
struct ValuesOf<std::tuple<T...>> {
  using type = std::tuple<std::remove_cvref_t<T>...>;
};

}  // namespace detail

/// Finds the Variables in an argument or result: a Variable, or an optional, variant, pair, tuple or
/// container (vector, array, map, ...) of such, nested at will. Other types carry none, nor do constant
/// elements, such as a map's keys. A user-defined struct takes part by a member `for_each_variable(visit)`.
template <class T>
void collect_variables(T& value, std::vector<Variable*>& found) {
  const auto each = [&found](auto&... element) { (collect_variables(element, found), ...); };
  if constexpr (std::is_const_v<T> || !detail::CarriesVariables<T>::value)
    return;
  else if constexpr (std::is_same_v<T, Variable>)
    found.push_back(&value);
  else if constexpr (detail::VisitsVariables<T>)
    value.for_each_variable([&found](Variable& x) { found.push_back(&x); });
  else if constexpr (detail::HoldsElements<T>)
    for (auto& element : value) each(element);
  else if constexpr (requires { value.has_value(); }) {
    if (value) each(*value);
  } else if constexpr (requires { value.valueless_by_exception(); })
    visit(each, value);  // std::visit
  else
    std::apply(each, value);
}

/// `body` for `CallableModule::call` of a module that may be checkpointed (nn/checkpoint_modules.h): backward
/// runs it again, so it captures `this` and values, and no references to what the caller owns. Tensors among
/// the arguments are checked for changes since the first run; captured ones are not.
template <class Body>
detail::RerunnableBody<Body> rerunnable(Body body) {
  return {std::move(body)};
}

/// The call of a Layer, with or without options.
template <class Derived>
class CallableModule : public Module {
 public:
  /// Returns `Derived::forward(args...)`, run under the module's full name. With hooks registered, `forward`
  /// gets copies of the arguments, in which the hooks may have replaced Variables; what cannot be copied, or
  /// what `forward` may write to, it gets as it is. Hooks get the module as one that may be changed.
  // Self is a template parameter because clang 14 would look into Derived before it is complete.
  template <class... Args, class Self = Derived>
  requires detail::CallsForward<Self, Args...>
  auto operator()(Args&&... args) {
    return call(detail::ForwardOf<Self>{static_cast<Self&>(*this)}, std::forward<Args>(args)...);
  }
  /// The same for a constant module with a constant `forward`.
  template <class... Args, class Self = Derived>
  requires detail::CallsForward<const Self, Args...>
  auto operator()(Args&&... args) const {
    return call(detail::ForwardOf<const Self>{static_cast<const Self&>(*this)}, std::forward<Args>(args)...);
  }
  /// An error that says what to write, for a constant module with a `forward` that is not const.
  template <class... Args, class Self = Derived>
  requires(detail::CallsForward<Self, Args...> && !detail::CallsForward<const Self, Args...>) auto operator()(
      Args&&... args) const -> decltype(std::declval<Self&>().forward(std::forward<Args>(args)...)) {
    static_assert(detail::forward_is_const<Self>,
                  "this module is constant here, and its forward is not: write `Variable forward(const "
                  "Variable& x) const`, or call it through a reference that is not const");
    return const_cast<CallableModule&>(*this)(std::forward<Args>(args)...);
  }
  /// Errors that say what to write, for a layer without a `forward` that takes these arguments.
  /// @{
  // clang-format off
  template <class... Args, class Self = Derived>
  requires(!detail::HasForward<Self>)
  void operator()(Args&&...) const = delete;  // the layer has no forward: write `Variable forward(const Variable& x)` in it
  template <class... Args, class Self = Derived>
  requires(detail::HasForward<Self> && !detail::CallsForward<Self, Args...>)
  void operator()(Args&&...) const = delete;  // the layer's forward, which is public, takes other arguments than this call
  // clang-format on
  /// @}
  /// Whether Derived has a member named `forward`; true for a final class, which cannot be examined.
  bool has_forward() const override { return detail::HasForward<Derived>; }

 protected:
  /// By `Derived(o)`, from the options that it has as `o`; without such by `Derived()`.
  std::unique_ptr<Module> construct_again() const override {
    if constexpr (detail::HasOptions<Derived>) {
      if constexpr (std::is_constructible_v<Derived, const decltype(Derived::o)&>)
        return std::make_unique<Derived>(static_cast<const Derived&>(*this).o);
      else
        return nullptr;
    } else if constexpr (std::is_default_constructible_v<Derived>) {
      return std::make_unique<Derived>();
    } else {
      return nullptr;
    }
  }
  /// Copies `o`, where Derived has it.
  void copy_options(const Module& original) override {
    if constexpr (detail::HasOptions<Derived>)
      if constexpr (std::is_copy_assignable_v<decltype(Derived::o)>)
        static_cast<Derived&>(*this).o = static_cast<const Derived&>(original).o;
  }
  /// Returns `body(args...)`, run as a call of the module: under its full name, and between its hooks. A
  /// member function that computes with parameters is such a call. The hooks see the Variables in `args`;
  /// those that `body` captures they do not see.
  template <class Body, class... Args>
  auto call(const Body& body, Args&&... args) const {
    NamedScope scope(full_name());
    if (!has_hooks()) [[likely]]
      return body(std::forward<Args>(args)...);
    return call_with_hooks(body, std::forward<Args>(args)...);
  }

 private:
  /// Whether Body accepts these arguments with argument `index` constant.
  template <size_t index, class Body, class... Args, size_t... I>
  static constexpr bool accepts_constant(std::index_sequence<I...>) {
    return std::is_invocable_v<const Body&,
                               std::conditional_t<I == index, const std::remove_reference_t<Args>&, Args>...>;
  }
  template <size_t index, class Body, class... Args>
  static constexpr bool is_copied() {
    using Argument = std::tuple_element_t<index, std::tuple<Args&&...>>;
    using Value = std::remove_cvref_t<Argument>;
    if constexpr (!std::is_copy_constructible_v<Value>)
      return false;
    else if constexpr (!std::is_lvalue_reference_v<Argument> ||
                       std::is_const_v<std::remove_reference_t<Argument>> || std::is_same_v<Value, Variable>)
      return true;
    else if constexpr (!detail::CarriesVariables<Value>::value)
      return false;
    else
      return accepts_constant<index, Body, Args...>(std::index_sequence_for<Args...>());
  }

  /// What hooks and Body get for an argument: a copy, of a Tensor as a Variable where Body takes one, or the
  /// argument itself.
  template <size_t index, class Body, class... Args, size_t... I>
  static auto passed_on(std::index_sequence<I...>) {
    using Argument = std::tuple_element_t<index, std::tuple<Args&&...>>;
    using Value = std::remove_cvref_t<Argument>;
    if constexpr (!is_copied<index, Body, Args...>())
      return std::type_identity<Argument>();
    else if constexpr (std::is_same_v<Value, Tensor> &&
                       std::is_invocable_v<const Body&, std::conditional_t<I == index, Variable&, Args>...>)
      return std::type_identity<Variable>();
    else
      return std::type_identity<Value>();
  }

  template <class Body, class... Args>
  auto call_with_hooks(const Body& body, Args&&... args) const {
    // Copies of the arguments' handles, so that hooks replace the copies and not the caller's. What cannot be
    // copied, or `body` may write to (caches, modules), is passed on as it is.
    const auto copy = [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<typename decltype(passed_on<I, Body, Args...>(
          std::index_sequence_for<Args...>()))::type...>(std::forward<Args>(args)...);
    };
    auto copies = copy(std::index_sequence_for<Args...>());
    std::vector<Variable*> inputs, outputs;
    std::apply([&inputs](auto&... argument) { (collect_variables(argument, inputs), ...); }, copies);
    HookedCall hooked(*this);
    hooked.before_forward(inputs);
    using Result = decltype(body(std::forward<Args>(args)...));
    if constexpr (std::is_void_v<Result>) {
      if (runs_as_segment()) fail_to_run_again();
      std::apply([&body](auto&... argument) { body(argument...); }, copies);
      hooked.after_forward(inputs, {});
    } else {
      Result result =
          runs_as_segment() ? run_checkpointed<Result>(body, copies, inputs) : apply_to<Result>(body, copies);
      collect_variables(result, outputs);
      hooked.after_forward(inputs, outputs);
      return result;
    }
  }

  template <class Result, class Body, class Copies>
  static Result apply_to(const Body& body, Copies& copies) {
    return std::apply([&body](auto&... argument) -> Result { return body(argument...); }, copies);
  }

  /// The Variables in a call's arguments, and the versions of the Tensors among them.
  template <class Values>
  static std::vector<Variable*> variables_of(Values& values) {
    std::vector<Variable*> found;
    std::apply([&found](auto&... argument) { (collect_variables(argument, found), ...); }, values);
    return found;
  }
  template <class Values>
  static std::vector<uint64_t> versions_of(const Values& values) {
    std::vector<uint64_t> versions;
    const auto add = [&versions](const auto& argument) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(argument)>, Tensor>)
        versions.push_back(argument.defined() ? argument.version() : 0);
    };
    std::apply([&add](const auto&... argument) { (add(argument), ...); }, values);
    return versions;
  }

  /// `body(copies...)` as a segment that backward runs again with the same `inputs`, which are the Variables
  /// in `copies`.
  template <class Result, class Body, class Copies>
  Result run_checkpointed(const Body& body, const Copies& copies,
                          const std::vector<Variable*>& inputs) const {
    if constexpr (!detail::RunsAgain<Body, Copies>::value || std::is_reference_v<Result>) {
      fail_to_run_again();
    } else {
      using Values = typename detail::ValuesOf<Copies>::type;
      std::vector<Variable> given_first;
      for (const Variable* input : inputs) given_first.push_back(*input);
      // The segment holds the other arguments; its inputs it gets, so that they can be elsewhere meanwhile.
      const auto others = std::make_shared<Values>(copies);
      for (Variable* input : variables_of(*others)) *input = Variable();
      if (variables_of(*others).size() != given_first.size()) fail_to_run_again();
      const auto first_result = std::make_shared<std::optional<Result>>();
      run_segment(
          [this, body, others, versions = versions_of(*others),
           weak = std::weak_ptr(first_result)](std::span<const Variable> given) -> std::vector<Variable> {
            if (versions_of(*others) != versions) fail_for_changed_argument();
            Values arguments = *others;
            const std::vector<Variable*> places = variables_of(arguments);
            for (size_t i = 0; i < places.size(); ++i) *places[i] = given[i];
            Result result = apply_values<Result, Copies>(body, arguments);
            std::vector<Variable*> found;
            collect_variables(result, found);
            std::vector<Variable> outputs;
            for (const Variable* output : found) outputs.push_back(*output);
            if (const auto first = weak.lock()) first->emplace(std::move(result));
            return outputs;
          },
          std::move(given_first));
      return std::move(**first_result);
    }
  }

  /// Calls `body` with values; where Copies has a reference, with a constant one.
  template <class Result, class Copies, class Body, class Values>
  static Result apply_values(const Body& body, Values& values) {
    return [&]<size_t... I>(std::index_sequence<I...>)->Result {
      return body(static_cast<std::conditional_t<std::is_reference_v<std::tuple_element_t<I, Copies>>,
                                                 const std::tuple_element_t<I, Values>&,
                                                 std::tuple_element_t<I, Values>&>>(std::get<I>(values))...);
    }
    (std::make_index_sequence<std::tuple_size_v<Values>>());
  }
};

/// A Module with a call, `y = layer(x)`, that runs hooks around `Derived::forward`, of any signature. Do not
/// call `forward` itself: sharding, checkpointing and profiling act in the call. With options,
/// `Layer<Derived, Options>` stores them as `o`, before the members of Derived are initialised. Further calls
/// have names, and run the same hooks:
///
///     struct DoublerOptions { double offset = 0; };
///     struct Doubler : nn::Layer<Doubler, DoublerOptions> {
///       using Layer::Layer;  // Doubler({.offset = 1}), and Doubler() where the options have defaults
///       Variable forward(const Variable& x) const { return x + x + o.offset; }
///       Variable loss(const Variable& x, const Tensor& target) const {
///         return call([&](const Variable& in) { return mse_loss(forward(in), target); }, x);
///       }
///     };
///
/// A layer with a const `forward` is called through a constant reference too.
template <class Derived, class O = void>
class Layer : public CallableModule<Derived> {
 public:
  using Options = O;  ///< the type that `add` and `push` take in braces
  O o;                ///< as given to the constructor

  /// The options' defaults.
  Layer() requires std::default_initializable<O> : o() {}
  /// Stores the options, before the members of Derived are initialised.
  explicit Layer(O options) : o(std::move(options)) {}
};

/// A layer without options, or with options that it stores itself.
template <class Derived>
class Layer<Derived, void> : public CallableModule<Derived> {};

}  // namespace tessera::nn

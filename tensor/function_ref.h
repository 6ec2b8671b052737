#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace tessera {

template <class Signature>
class FunctionRef;

/// A reference to a callable, for parameters: two pointers, without ownership or allocation.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  /// Refers to `function`, which must outlive the reference: a temporary lives long enough as an
  /// argument of a call.
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Args...>)
      FunctionRef(F&& function)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  /// Calls the callable, with what it returns or throws.
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace tessera

#pragma once

#include <any>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/variable.h"

namespace tessera {

class Saved;
class Wanted;

/// A value of `AutogradContext::saved_data` that is not a Variable: a number, a Shape, any type that copies.
class SavedData {
 public:
  /// Keeps `value`: an integer as int64_t, a floating number as double, text as std::string.
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, SavedData>) SavedData& operator=(T value) {
    if constexpr (std::is_same_v<T, bool>)
      value_ = value;
    else if constexpr (std::is_integral_v<T>)
      value_ = static_cast<int64_t>(value);
    else if constexpr (std::is_floating_point_v<T>)
      value_ = static_cast<double>(value);
    else if constexpr (std::is_convertible_v<T, std::string>)
      value_ = std::string(std::move(value));
    else
      value_ = std::move(value);
    return *this;
  }
  /// The value. Throws ValueError when none was kept, or one of another type; a kept integer reads as a
  /// floating number too.
  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, bool>) {
      if (const bool* value = std::any_cast<bool>(&value_)) return *value;
    } else if constexpr (std::is_arithmetic_v<T>) {
      if (const int64_t* value = std::any_cast<int64_t>(&value_)) return static_cast<T>(*value);
      if constexpr (std::is_floating_point_v<T>)
        if (const double* value = std::any_cast<double>(&value_)) return static_cast<T>(*value);
    } else if (const T* value = std::any_cast<T>(&value_)) {
      return *value;
    }
    throw_other_type(value_.has_value());
  }

 private:
  [[noreturn]] static void throw_other_type(bool has_value);

  std::any value_;
};

/// The values of `AutogradContext::saved_data`, by name.
class SavedDataList {
 public:
  /// The value of this name; the first use makes one without content.
  SavedData& operator[](std::string_view name);

 private:
  std::vector<std::pair<std::string, SavedData>> list_;
};

/// What the forward of a custom function passes to its backward (autograd/functional/custom_function.h). One
/// per call; both functions receive it, and it must not be kept.
class AutogradContext {
 public:
  AutogradContext(const AutogradContext&) = delete;
  AutogradContext& operator=(const AutogradContext&) = delete;

  /// In forward: saves inputs, outputs or other values for backward, after those saved before. They are kept
  /// as every saved value is: backward throws AutogradError when one was changed in place since, saving
  /// policies decide what is held, and the first backward frees them. A value that is neither an input nor an
  /// output is a constant in second derivatives. Undefined values are allowed.
  void save_for_backward(std::vector<Variable> values);
  /// The same for one value.
  void save(const Variable& value) { save_for_backward({value}); }
  /// The saved values in order, with their histories.
  std::vector<Variable> get_saved_variables() const;
  /// Value `i` of them. Throws IndexError when fewer were saved.
  Variable saved(size_t i) const;

  /// Numbers, shapes and other values that are not Variables:
  ///
  ///     ctx->saved_data["scale"] = 0.5;                       // forward
  ///     const double scale = ctx->saved_data["scale"].to<double>();  // backward
  SavedDataList saved_data;

  /// In forward: these outputs are constants for what is computed from them (indices, masks, counts). Outputs
  /// of integers are so without it. Their gradients are zeros.
  void mark_non_differentiable(const std::vector<Variable>& outputs);
  /// In forward: with false, the gradient of an output that nothing used is undefined in backward; with true,
  /// as at first, it is zeros.
  void set_materialize_grads(bool value) { materialize_grads_ = value; }

  /// Whether argument `i` needs a gradient: in forward because it requires one, in backward because this pass
  /// computes it. All arguments count, and each element of a list; false for what is not a Variable. Throws
  /// IndexError outside the arguments.
  bool needs_input_grad(size_t i) const;

 private:
  friend class CustomNode;
  friend class ContextScope;
  AutogradContext() = default;

  std::vector<Variable> to_save_;             // in forward
  std::vector<Variable> non_differentiable_;  // in forward
  std::vector<int> input_of_argument_;        // -1: the argument is not a Variable
  std::vector<bool> requires_grad_;           // per input, in forward
  const Saved* saved_ = nullptr;              // in backward
  size_t saved_count_ = 0;
  const Wanted* wanted_ = nullptr;  // in backward
  bool materialize_grads_ = true;
};

}  // namespace tessera

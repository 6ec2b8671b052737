#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "tensor/types/dtype.h"

namespace tessera {

/// A C++ number as an operand: it takes the dtype of the other operand, a tensor. Keeps whether it was
/// written as a bool, an integer or a floating number.
class Scalar {
 public:
  /// A bool or an integer; `integer()` wraps for one beyond int64_t.
  template <std::integral T>
  Scalar(T value)
      : kind_(std::same_as<T, bool> ? Kind::truth : Kind::integer),
        real_(static_cast<double>(value)),
        integer_(static_cast<int64_t>(value)) {}
  /// A floating number, kept as f64.
  template <std::floating_point T>
  Scalar(T value) : kind_(Kind::floating), real_(value), integer_(0) {}

  /// How the number was written; exactly one of the three holds.
  /// @{
  bool is_boolean() const { return kind_ == Kind::truth; }
  bool is_integer() const { return kind_ == Kind::integer; }
  bool is_floating() const { return kind_ == Kind::floating; }
  /// @}
  /// The number in f64: 0 or 1 for a bool, rounded for an integer beyond 2^53.
  double real() const { return real_; }
  /// Meaningful unless `is_floating()`.
  int64_t integer() const { return integer_; }

  /// Writes the number as one element of `dtype`. Throws, naming `where`: DTypeError for a floating number in
  /// an integer or bool tensor and for any number but a bool in a bool tensor; ValueError for an integer
  /// outside the dtype's range.
  void write(DType dtype, void* element, const char* where) const;

  /// As C++ would print it: "2", "0.5", "true".
  std::string str() const;
  /// `scalar.str()`.
  friend std::string to_string(const Scalar& scalar) { return scalar.str(); }

 private:
  enum class Kind : uint8_t { truth, integer, floating };
  Kind kind_;
  double real_;
  int64_t integer_;
};

}  // namespace tessera

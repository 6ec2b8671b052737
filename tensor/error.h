#pragma once

#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tessera {

/// Base of every exception that the library throws. The message names place, expected and given.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Shapes that do not fit an operation, or each other.
struct ShapeError : Error {
  using Error::Error;
};
/// An element type that an operation does not take, or a mixture that does not promote.
struct DTypeError : Error {
  using Error::Error;
};
/// Tensors on different devices, or a device that an operation does not support.
struct DeviceError : Error {
  using Error::Error;
};
/// A capability (CUDA, MPI, ...) that this build was configured without.
struct NotBuiltError : Error {
  using Error::Error;
};
/// An index, id or dimension outside its range.
struct IndexError : Error {
  using Error::Error;
};
/// An argument with an invalid value.
struct ValueError : Error {
  using Error::Error;
};
/// Use of a storage with released bytes.
struct StorageError : Error {
  using Error::Error;
};
/// Memory that the system does not have, or that a rank's byte limit does not allow.
struct OutOfMemoryError : Error {
  using Error::Error;
};
/// A misuse of automatic differentiation: backward twice, a leaf changed in place, ...
struct AutogradError : Error {
  using Error::Error;
};
/// A loss or gradient that is not finite and cannot be skipped.
struct NonFiniteError : Error {
  using Error::Error;
};
/// Contradictory or out-of-range options.
struct ConfigError : Error {
  using Error::Error;
};
/// An invalid dataset: missing, empty, not UTF-8, of the wrong hash, ...
struct DataError : Error {
  using Error::Error;
};
/// A checkpoint or a safetensors file that is invalid or cannot be written: truncated, of another model, ...
struct CheckpointError : Error {
  using Error::Error;
};

/// One argument of `text`: a string, a number, or anything with a `to_string` found by its namespace.
class TextArgument {
 public:
  /// The text itself.
  /// @{
  TextArgument(const char* value) : text_(value) {}
  TextArgument(std::string_view value) : text_(value) {}
  TextArgument(std::string value) : text_(std::move(value)) {}
  /// @}
  /// "true" or "false".
  TextArgument(bool value) : text_(value ? "true" : "false") {}
  /// The one character.
  TextArgument(char value) : text_(1, value) {}
  /// Six significant digits, as printf's %g: "0.1", "1e-05", "nan".
  TextArgument(double value);
  /// The decimal digits of an integer.
  template <std::integral T>
  TextArgument(T value) : text_(std::to_string(value)) {}
  /// The value's own `to_string`.
  template <class T>
  requires(!std::integral<T>) && requires(const T& value) {
    { to_string(value) } -> std::convertible_to<std::string>;
  }
  TextArgument(const T& value) : text_(to_string(value)) {}

  /// The argument's text.
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

/// The texts one after the other, without separators. `text` calls it.
std::string join_text(std::initializer_list<TextArgument> arguments);

/// The arguments joined into one string: `text("expected ", shape, ", got ", n)`.
template <class... Arguments>
std::string text(const Arguments&... arguments) {
  return join_text({TextArgument(arguments)...});
}

/// Throws E with the text of `arguments` unless `condition` holds.
template <class E, class... Arguments>
inline void require(bool condition, const Arguments&... arguments) {
  if (!condition) [[unlikely]]
    throw E(text(arguments...));
}

}  // namespace tessera

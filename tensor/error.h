#pragma once

#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tessera {

/// Every exception that the library throws. The message says what was expected, what came, and where.
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
/// Tensors on different devices, or a device that an operation does not serve.
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
/// An argument whose value makes no sense.
struct ValueError : Error {
  using Error::Error;
};
/// Use of a storage whose bytes were released.
struct StorageError : Error {
  using Error::Error;
};
/// Memory that could not be had, or a rank's byte limit.
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
/// A dataset that was refused: missing, empty, not UTF-8, of the wrong hash, ...
struct DataError : Error {
  using Error::Error;
};
/// A checkpoint that was refused: truncated, foreign, of another model, not writable, ...
struct CheckpointError : Error {
  using Error::Error;
};

/// One argument of `text`: a string, a number, or anything with a `to_string` found by its namespace.
class TextPiece {
 public:
  TextPiece(const char* piece) : text_(piece) {}
  TextPiece(std::string_view piece) : text_(piece) {}
  TextPiece(std::string piece) : text_(std::move(piece)) {}
  TextPiece(bool piece) : text_(piece ? "true" : "false") {}
  TextPiece(char piece) : text_(1, piece) {}
  TextPiece(double piece);
  template <std::integral T>
  TextPiece(T piece) : text_(std::to_string(piece)) {}
  template <class T>
  requires requires(const T& value) {
    { to_string(value) } -> std::convertible_to<std::string>;
  }
  TextPiece(const T& piece) : text_(to_string(piece)) {}

  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

std::string join_text(std::initializer_list<TextPiece> pieces);

/// The pieces one after another: `text("expected ", shape, ", got ", n)`.
template <class... Pieces>
std::string text(const Pieces&... pieces) {
  return join_text({TextPiece(pieces)...});
}

/// Throws E with the text of `pieces` unless `condition` holds.
template <class E, class... Pieces>
inline void require(bool condition, const Pieces&... pieces) {
  if (!condition) [[unlikely]]
    throw E(text(pieces...));
}

}  // namespace tessera

#pragma once

#include <concepts>
#include <optional>
#include <string>

#include "tensor/tensor.h"

/// What `Tensor::index`, `Tensor::index_put_` and the methods of Variable with these names take:
/// `x.index({Slice(1, 5), 3, None, mask})`. The rules are PyTorch's (tensor/README.md, "Indexing").
namespace tessera {

/// The type of `None`.
struct NewAxis {
  /// A missing end of a Slice: `Slice(None, 5)`.
  constexpr operator std::optional<int64_t>() const { return std::nullopt; }
};
/// The type of `Ellipsis`.
struct AllOtherDimensions {};

/// A new dimension of extent 1.
inline constexpr NewAxis None;
/// As many full dimensions as the other indices leave; at most one per list of indices.
inline constexpr AllOtherDimensions Ellipsis;

/// The elements start, start + step, ... before `stop` of a dimension, Python's `start:stop:step`. Negative
/// ends count from the dimension's end, ends outside are clamped, and missing ones are those of the
/// dimension.
struct Slice {
  std::optional<int64_t> start;  ///< the first element; missing: 0
  std::optional<int64_t> stop;   ///< the end, which is excluded; missing: the extent
  int64_t step;                  ///< at least 1, else indexing throws ValueError

  /// `Slice()` is `:`, `Slice(1)` is `1:`, `Slice({}, -1)` is `:-1`, `Slice({}, {}, 2)` is `::2`.
  constexpr explicit Slice(std::optional<int64_t> first = {}, std::optional<int64_t> end = {},
                           int64_t stride = 1)
      : start(first), stop(end), step(stride) {}
};

/// One entry of a list of indices.
class Index {
 public:
  /// What the entry is.
  enum class Kind : uint8_t { integer, slice, none, ellipsis, tensor };

  /// The elements at one position of a dimension, which the result lacks; counted from the end when negative.
  template <std::integral T>
  requires(!std::same_as<T, bool>) Index(T position)
      : kind_(Kind::integer), slice_(static_cast<int64_t>(position)) {}
  /// A range of a dimension.
  Index(const Slice& slice) : kind_(Kind::slice), slice_(slice) {}
  /// A new dimension.
  Index(NewAxis) : kind_(Kind::none) {}
  /// The dimensions that the other indices leave.
  Index(AllOtherDimensions) : kind_(Kind::ellipsis) {}
  /// Positions (i64, i32; negative ones count from the end), or a mask (bool) of one dimension or several.
  Index(Tensor tensor) : kind_(Kind::tensor), tensor_(std::move(tensor)) {}
  /// The values of a Variable, as a tensor.
  template <class T>
  requires requires(const T& x) {
    { x.value() } -> std::same_as<const Tensor&>;
  }
  Index(const T& x) : Index(x.value()) {}

  /// Which of the kinds it is.
  Kind kind() const { return kind_; }
  /// Of an integer: the position.
  int64_t integer() const { return *slice_.start; }
  /// Of a slice: its ends and step.
  const Slice& slice() const { return slice_; }
  /// Of a tensor: the mask or the positions.
  const Tensor& tensor() const { return *tensor_; }

 private:
  Kind kind_;
  Slice slice_;  // of an integer, its start
  std::optional<Tensor> tensor_;
};

/// As Python writes it: "3", "1:-1", "None", "...", "a tensor (4,) i64 on cpu".
std::string to_string(const Index& index);

}  // namespace tessera

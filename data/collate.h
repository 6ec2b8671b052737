#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/record.h"
#include "tensor/types/scalar.h"

namespace tessera::data {

/// Combines examples into the fields of a batch. Called from several threads at once.
using Collate = std::function<Record(std::span<const Example>)>;

/// Every field stacked along a new first dimension: n of (...) give (n, ...). The default. Throws DataError
/// where the examples' fields differ, ShapeError or DTypeError where a field's shapes or dtypes differ.
Record stack_examples(std::span<const Example> examples);

/// How one field of the examples becomes a field of the batch, or several: sets them in `batch`.
using FieldCollate =
    std::function<void(std::string_view name, std::span<const Tensor> values, Record& batch)>;

/// Stacks the tensors along a new first dimension.
FieldCollate stack_field();

/// How sequences of different lengths become one tensor.
struct PadOptions {
  /// Of the added elements.
  Scalar value = 0;
  /// The name of a further field, (n, longest) bool: true at padding, as PyTorch's `src_key_padding_mask`.
  /// Empty: none.
  std::string mask = {};
  /// The name of a further field, (n) i64: the lengths before padding. Empty: none.
  std::string lengths = {};
  /// The length of the batch is the next multiple of this.
  int64_t multiple_of = 1;
  /// Longer sequences lose their end; 0: none is cut.
  int64_t max_length = 0;
};
/// Tensors of shapes (length, ...) with equal further dimensions become (n, longest, ...). Throws ConfigError
/// for options out of range, ShapeError for tensors without dimensions and where further dimensions differ.
FieldCollate pad_field(PadOptions options = {});

/// Keeps one tensor for each example, of any shapes: `batch.list(name)`.
FieldCollate keep_field();

/// A collate by field: those named are combined as given, the others stacked.
///
///     .collate = data::collate_fields({{"tokens", data::pad_field({.value = 1, .mask = "padding"})}})
///
/// Throws ValueError for a name that stands twice or an empty function. What it returns throws DataError for
/// a name that the examples do not have.
Collate collate_fields(std::vector<std::pair<std::string, FieldCollate>> by_name);

}  // namespace tessera::data

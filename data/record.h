#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace tessera::data {

/// A named tensor of a record.
struct Field {
  std::string name;  ///< not empty, and unique in a record
  Tensor value;      ///< defined
};

/// Named tensors: an example of a dataset, or a batch of them.
///
///     data::Example({{"tokens", ids}, {"label", label}})   example["tokens"]
///     data::Example(x, y)                                  example.x, example["y"]
///
/// The fields x and y, a model's input and its target, are members too, since most datasets have no others.
/// Copies share the tensors.
class Record {
 public:
  Tensor x;  ///< the field "x"; undefined in a record without it
  Tensor y;  ///< the field "y"; undefined in a record without it

  /// No field.
  Record() = default;
  /// The fields x and y, or x alone.
  Record(Tensor input, Tensor target = {}) : x(std::move(input)), y(std::move(target)) {}
  /// These fields, in this order. Throws ValueError as `set`, and for a name that stands twice.
  Record(std::initializer_list<Field> fields);

  /// A field. Throws DataError that lists the fields where none has this name, or it is a list.
  /// @{
  Tensor& operator[](std::string_view name);
  const Tensor& operator[](std::string_view name) const;
  /// @}
  /// Whether a field or a list has this name.
  bool has(std::string_view name) const;
  /// Adds a field, or replaces the field or list of this name. Throws ValueError for an empty name and for an
  /// undefined tensor.
  void set(std::string_view name, Tensor value);

  /// A field with one tensor for each example, which have shapes of their own (`keep_field`). Throws
  /// DataError as `operator[]`.
  const std::vector<Tensor>& list(std::string_view name) const;
  /// Adds or replaces a list. Throws ValueError as `set`.
  void set_list(std::string_view name, std::vector<Tensor> values);

  /// Names of the fields: x, y, the others in the order in which they were added, then the lists.
  std::vector<std::string> names() const;
  /// The names between commas, for messages: "x, y, mask".
  std::string describe_names() const;
  /// The fields that are no lists, in the order of `names`.
  std::vector<Field> fields() const;

  /// A list and its name.
  struct List {
    std::string name;            ///< unique among the names of the record
    std::vector<Tensor> values;  ///< one for each example
  };
  /// The lists, in the order in which they were added.
  const std::vector<List>& lists() const { return lists_; }

  /// The record with every tensor replaced by `change(name, tensor)`.
  Record map(const std::function<Tensor(std::string_view, const Tensor&)>& change) const;
  /// The record on a device; tensors that are there already are shared.
  Record to(Device device) const;

 private:
  const Tensor* find(std::string_view name) const;

  std::vector<Field> more_;  ///< other than x and y
  std::vector<List> lists_;
};

/// One example of a dataset: its tensors have no batch dimension.
using Example = Record;

/// x for 0, y for 1: `auto& [x, y] = record`. Throws DataError where the record lacks one of them.
/// @{
const Tensor& x_or_y(const Record& record, size_t i);
Tensor& x_or_y(Record& record, size_t i);
template <size_t i>
requires(i < 2) Tensor& get(Record& record) {
  return x_or_y(record, i);
}
template <size_t i>
requires(i < 2) const Tensor& get(const Record& record) {
  return x_or_y(record, i);
}
template <size_t i>
requires(i < 2) Tensor && get(Record&& record) {
  return std::move(x_or_y(record, i));
}
/// @}

}  // namespace tessera::data

/// A structured binding of a record has two names.
template <>
struct std::tuple_size<tessera::data::Record> : std::integral_constant<size_t, 2> {};
/// Both are Tensors.
template <size_t i>
struct std::tuple_element<i, tessera::data::Record> {
  using type = tessera::Tensor;  ///< of x and of y
};

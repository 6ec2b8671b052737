#include "data/collate.h"

#include <algorithm>

#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/shaping.h"

namespace tessera::data {
namespace {

using FieldRules = std::vector<std::pair<std::string, FieldCollate>>;

void stack_into(std::string_view name, std::span<const Tensor> values, Record& batch) {
  for (const Tensor& value : values)
    require<ShapeError>(value.shape() == values[0].shape(), "collate: expected '", name,
                        "' of one shape in all examples of a batch, got ", values[0].shape(), " and ",
                        value.shape(), "; pad it (collate_fields, pad_field), or give a `collate`");
  batch.set(name, ops::stack(values, 0));
}

/// The length that the batch's sequences get.
int64_t padded_length(std::string_view name, std::span<const Tensor> values, const PadOptions& options) {
  int64_t longest = 0;
  for (const Tensor& value : values) {
    require<ShapeError>(value.ndim() > 0, "pad_field: expected '", name, "' of shape (length, ...), got ",
                        describe(value));
    longest = std::max(longest, value.size(0));
  }
  if (options.max_length > 0) longest = std::min(longest, options.max_length);
  return (longest + options.multiple_of - 1) / options.multiple_of * options.multiple_of;
}

void pad_into(std::string_view name, std::span<const Tensor> values, const PadOptions& options,
              Record& batch) {
  const int64_t n = std::ssize(values), longest = padded_length(name, values, options);
  Shape shape = values[0].shape();
  shape[0] = longest;
  shape.insert(0, n);
  const Tensor padded = ops::full(shape, options.value, values[0].dtype());
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < n; ++row) {
    const Tensor& value = values[static_cast<size_t>(row)];
    require<DTypeError>(value.dtype() == padded.dtype(), "pad_field: expected '", name,
                        "' of one dtype, got ", padded.dtype(), " and ", value.dtype());
    const int64_t length =
        options.max_length > 0 ? std::min(value.size(0), options.max_length) : value.size(0);
    Shape own = value.shape();
    own[0] = longest;
    own.insert(0, n);
    require<ShapeError>(own == shape, "pad_field: expected '", name,
                        "' with one shape after the first dimension, got ", values[0].shape(), " and ",
                        value.shape());
    if (length > 0) padded.select(0, row).narrow(0, 0, length).copy_from(value.narrow(0, 0, length));
    lengths.push_back(length);
  }
  batch.set(name, padded);
  if (!options.lengths.empty()) batch.set(options.lengths, Tensor::from(lengths));
  if (options.mask.empty()) return;
  const Tensor mask = Tensor::empty({n, longest}, boolean);
  bool* at = mask.data<bool>();
  for (const int64_t length : lengths)
    for (int64_t i = 0; i < longest; ++i) *at++ = i >= length;
  batch.set(options.mask, mask);
}

/// The names of all examples, which must be equal and in one order.
std::vector<std::string> common_names(std::span<const Example> examples) {
  require<DataError>(!examples.empty(), "collate: expected at least one example, got none");
  const std::vector<std::string> names = examples[0].names();
  for (const Example& example : examples)
    require<DataError>(example.names() == names,
                       "collate: expected the same fields in all examples of a batch, got ",
                       examples[0].describe_names(), " and ", example.describe_names());
  require<DataError>(!names.empty(), "collate: expected examples with a field, got examples without any");
  return names;
}

Record collate_by_rules(std::span<const Example> examples, const FieldRules& rules) {
  const std::vector<std::string> names = common_names(examples);
  for (const auto& rule : rules)
    require<DataError>(std::find(names.begin(), names.end(), rule.first) != names.end(),
                       "collate_fields: no field '", rule.first, "' in the examples; they have ",
                       examples[0].describe_names());
  Record batch;
  for (const std::string& name : names) {
    std::vector<Tensor> values;
    for (const Example& example : examples) values.push_back(example[name]);
    const auto rule =
        std::find_if(rules.begin(), rules.end(), [&name](const auto& one) { return one.first == name; });
    if (rule != rules.end())
      rule->second(name, values, batch);
    else
      stack_into(name, values, batch);
  }
  return batch;
}

}  // namespace

Record stack_examples(std::span<const Example> examples) {
  return collate_by_rules(examples, {});
}

FieldCollate stack_field() {
  return stack_into;
}

FieldCollate pad_field(PadOptions options) {
  require<ConfigError>(options.multiple_of >= 1, "pad_field: expected multiple_of of at least 1, got ",
                       options.multiple_of);
  require<ConfigError>(options.max_length >= 0, "pad_field: expected max_length of at least 0, got ",
                       options.max_length);
  return [options = std::move(options)](std::string_view name, std::span<const Tensor> values,
                                        Record& batch) { pad_into(name, values, options, batch); };
}

FieldCollate keep_field() {
  return [](std::string_view name, std::span<const Tensor> values, Record& batch) {
    batch.set_list(name, {values.begin(), values.end()});
  };
}

Collate collate_fields(FieldRules by_name) {
  for (size_t i = 0; i < by_name.size(); ++i) {
    require<ValueError>(by_name[i].second != nullptr, "collate_fields: expected a function for the field '",
                        by_name[i].first, "', got none");
    for (size_t j = 0; j < i; ++j)
      require<ValueError>(by_name[i].first != by_name[j].first,
                          "collate_fields: expected each field once, got '", by_name[i].first, "' twice");
  }
  return [rules = std::move(by_name)](std::span<const Example> examples) {
    return collate_by_rules(examples, rules);
  };
}

}  // namespace tessera::data

#include "data/record.h"

#include <algorithm>

#include "tensor/error.h"

namespace tessera::data {
namespace {

template <class Named>
auto find_named(Named& all, std::string_view name) {
  return std::find_if(all.begin(), all.end(), [name](const auto& one) { return one.name == name; });
}

/// Replaces the entry of `all` that has this name, or appends one.
template <class Named, class Entry>
void replace_or_append(std::vector<Named>& all, Entry entry) {
  const auto at = find_named(all, entry.name);
  if (at != all.end())
    *at = std::move(entry);
  else
    all.push_back(std::move(entry));
}

void require_name(std::string_view name) {
  require<ValueError>(!name.empty(), "record: expected a name for each field, got an empty one");
}

}  // namespace

Record::Record(std::initializer_list<Field> fields) {
  for (const Field& field : fields) {
    require<ValueError>(!has(field.name), "record: expected one field of each name, got two of '", field.name,
                        "'");
    set(field.name, field.value);
  }
}

const Tensor* Record::find(std::string_view name) const {
  if (name == "x") return x.defined() ? &x : nullptr;
  if (name == "y") return y.defined() ? &y : nullptr;
  const auto at = find_named(more_, name);
  return at != more_.end() ? &at->value : nullptr;
}

const Tensor& Record::operator[](std::string_view name) const {
  const Tensor* value = find(name);
  if (value != nullptr) return *value;
  if (has(name))
    throw DataError(text("record: '", name, "' is a list of tensors; take it by list(\"", name, "\")"));
  throw DataError(text("record: no field '", name, "'; it has ", describe_names()));
}

Tensor& Record::operator[](std::string_view name) {
  return const_cast<Tensor&>(std::as_const(*this)[name]);
}

bool Record::has(std::string_view name) const {
  return find(name) != nullptr || find_named(lists_, name) != lists_.end();
}

void Record::set(std::string_view name, Tensor value) {
  require_name(name);
  require<ValueError>(value.defined(), "record: expected a tensor for the field '", name,
                      "', got an undefined one");
  std::erase_if(lists_, [name](const List& list) { return list.name == name; });
  if (name == "x")
    x = std::move(value);
  else if (name == "y")
    y = std::move(value);
  else
    replace_or_append(more_, Field{std::string(name), std::move(value)});
}

const std::vector<Tensor>& Record::list(std::string_view name) const {
  const auto at = find_named(lists_, name);
  require<DataError>(at != lists_.end(), "record: no list '", name, "'; it has ", describe_names());
  return at->values;
}

void Record::set_list(std::string_view name, std::vector<Tensor> values) {
  require_name(name);
  for (const Tensor& value : values)
    require<ValueError>(value.defined(), "record: expected tensors for the list '", name,
                        "', got an undefined one");
  if (name == "x") x = {};
  if (name == "y") y = {};
  std::erase_if(more_, [name](const Field& field) { return field.name == name; });
  replace_or_append(lists_, List{std::string(name), std::move(values)});
}

std::vector<Field> Record::fields() const {
  std::vector<Field> all;
  if (x.defined()) all.push_back({"x", x});
  if (y.defined()) all.push_back({"y", y});
  all.insert(all.end(), more_.begin(), more_.end());
  return all;
}

std::vector<std::string> Record::names() const {
  std::vector<std::string> all;
  for (Field& field : fields()) all.push_back(std::move(field.name));
  for (const List& list : lists_) all.push_back(list.name);
  return all;
}

std::string Record::describe_names() const {
  std::string all;
  for (const std::string& name : names()) all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? "no fields" : all;
}

Record Record::map(const std::function<Tensor(std::string_view, const Tensor&)>& change) const {
  Record result;
  for (const Field& field : fields()) result.set(field.name, change(field.name, field.value));
  for (const List& list : lists_) {
    std::vector<Tensor> values;
    for (const Tensor& value : list.values) values.push_back(change(list.name, value));
    result.set_list(list.name, std::move(values));
  }
  return result;
}

Record Record::to(Device device) const {
  return map([device](std::string_view, const Tensor& value) { return value.to(device); });
}

const Tensor& x_or_y(const Record& record, size_t i) {
  const Tensor& value = i == 0 ? record.x : record.y;
  require<DataError>(value.defined(),
                     "structured binding [x, y] of a record: expected the fields x and y, got ",
                     record.describe_names(), "; take a field by its name, record[\"...\"]");
  return value;
}

Tensor& x_or_y(Record& record, size_t i) {
  return const_cast<Tensor&>(x_or_y(std::as_const(record), i));
}

}  // namespace tessera::data

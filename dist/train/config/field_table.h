#pragma once  // not in tessera.h

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dist/train/config/field.h"
#include "dist/train/config/origin.h"

namespace tessera::training {

/// A field of a configuration with its value, for printing and saving.
struct FieldValue {
  FieldInfo info;        ///< name, help, limits
  std::string value;     ///< as text
  std::string json;      ///< as JSON
  std::string initial;   ///< the default, as text
  std::string expected;  ///< what the field takes: "a whole number of at least 0"
  Origin origin;         ///< what gave the value
};

/// The options of a configuration: from this one table come its flags, the keys of its files, what is
/// printed by --explain, what checkpoints and metrics record, and the reference page. A new option is a
/// member of the struct and a row of its table.
template <class Config>
class FieldTable {
 public:
  /// Rows in the order in which they are printed. Names must differ.
  FieldTable(std::initializer_list<Field<Config>> fields) : fields_(fields) {}

  /// Adds rows.
  FieldTable& add(std::initializer_list<Field<Config>> fields) {
    fields_.insert(fields_.end(), fields.begin(), fields.end());
    return *this;
  }
  /// Adds the rows of the table of a member: `part(config)` is the member.
  template <class Part>
  FieldTable& include(const FieldTable<Part>& table, Part& (*part)(Config&)) {
    for (const Field<Part>& field : table.fields())
      fields_.push_back({field.info, [at = field.at, part](Config& config) { return at(part(config)); }});
    return *this;
  }

  /// The rows, and their number.
  /// @{
  const std::vector<Field<Config>>& fields() const { return fields_; }
  size_t size() const { return fields_.size(); }
  /// @}
  /// The row of a name; nothing where there is none.
  std::optional<size_t> find(std::string_view name) const {
    for (size_t i = 0; i < fields_.size(); ++i)
      if (fields_[i].info.name == name) return i;
    return std::nullopt;
  }
  /// All names, in order.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Field<Config>& field : fields_) all.push_back(field.info.name);
    return all;
  }

 private:
  std::vector<Field<Config>> fields_;
};

/// The error of a name that no table has: a ConfigError with place, name and, where one is near, the nearest.
[[noreturn]] void throw_unknown(const std::string& place, std::string_view name,
                                const std::vector<std::string>& names);

/// Sets a field from a checkpoint's record. Throws CheckpointError: place, name, what is expected.
void set_saved(const FieldInfo& info, const FieldPointer& at, const std::map<std::string, std::string>& saved,
               const std::string& place);
/// Throws CheckpointError unless both texts are the same.
void require_same_text(const FieldInfo& info, const std::string& before, const std::string& now,
                       const std::string& place);

/// A configuration and the origin of each of its values.
template <class Config>
class Resolved {
 public:
  /// All values are `config`'s, with `origin`. `table` must outlive this.
  explicit Resolved(const FieldTable<Config>& table, Config config = {}, Origin origin = {})
      : table_(&table), config_(std::move(config)), origins_(table.size(), std::move(origin)) {}

  /// The values.
  /// @{
  const Config& operator*() const { return config_; }
  const Config* operator->() const { return &config_; }
  /// @}

  /// Sets a field. Throws ConfigError with the place, what is expected and what came, also for a name that
  /// the table lacks; then nothing changes.
  /// @{
  void set(std::string_view name, std::string_view value, Origin origin) {
    const size_t i = row(name, to_string(origin));
    Config changed = config_;
    const std::string place = origin.place.empty() ? std::string(name) : origin.place;
    set_text(table_->fields()[i].info, table_->fields()[i].at(changed), value, place);
    config_ = std::move(changed);
    origins_[i] = std::move(origin);
  }
  void set(const std::string& name, const JsonNode& value) {
    const size_t i = row(name, value.file_and_line());
    Config changed = config_;
    set_json(table_->fields()[i].info, table_->fields()[i].at(changed), value);
    config_ = std::move(changed);
    origins_[i] = {Source::file, value.file_and_line()};
  }
  /// @}
  /// Sets every key of a table of JSON.
  void set_all(const JsonNode& values) {
    for (const auto& [name, value] : values.members()) set(name, value);
  }
  /// Changes values in code: those that differ afterwards have `origin`. Limits are checked.
  template <class Change>
  void change(Origin origin, Change make) {
    Config changed = config_;
    make(changed);
    std::vector<Origin> origins = origins_;
    for (size_t i = 0; i < origins.size(); ++i) {
      const Field<Config>& field = table_->fields()[i];
      if (text_of(field.at(changed)) == text_of(field.at(config_))) continue;
      check_limits(field.info, field.at(changed), field.info.name);
      origins[i] = origin;
    }
    config_ = std::move(changed);
    origins_ = std::move(origins);
  }

  /// Sets what gave a field its value, and leaves the value.
  void mark(std::string_view name, Origin origin) { origins_[row(name, "mark")] = std::move(origin); }
  /// What gave a field its value.
  const Origin& origin(std::string_view name) const { return origins_[row(name, "origin")]; }
  /// Whether anything but the defaults gave the value.
  bool is_given(std::string_view name) const { return origin(name).source != Source::standard; }

  /// All fields with their values.
  std::vector<FieldValue> values() const {
    std::vector<FieldValue> all;
    Config now = config_, initial{};
    for (size_t i = 0; i < origins_.size(); ++i) {
      const Field<Config>& field = table_->fields()[i];
      all.push_back({field.info, text_of(field.at(now)), json_of(field.at(now)), text_of(field.at(initial)),
                     expected_of(field.info, field.at(now)), origins_[i]});
    }
    return all;
  }
  /// The table of the fields.
  const FieldTable<Config>& table() const { return *table_; }

  /// What a checkpoint keeps: the fields that are not OnResume::not_saved, as text by name.
  std::map<std::string, std::string> record() const {
    std::map<std::string, std::string> saved;
    Config now = config_;
    for (const Field<Config>& field : table_->fields())
      if (field.info.on_resume != OnResume::not_saved) saved[field.info.name] = text_of(field.at(now));
    return saved;
  }
  /// Sets these fields from a checkpoint's record. Throws CheckpointError naming `place` and the field for
  /// one that is missing or has another kind of value; then nothing changes.
  void restore(const std::map<std::string, std::string>& saved, const std::string& place) {
    Config changed = config_;
    for (const Field<Config>& field : table_->fields())
      if (field.info.on_resume != OnResume::not_saved) set_saved(field.info, field.at(changed), saved, place);
    config_ = std::move(changed);
    for (size_t i = 0; i < origins_.size(); ++i)
      if (table_->fields()[i].info.on_resume != OnResume::not_saved)
        origins_[i] = {Source::checkpoint, place};
  }
  /// Throws CheckpointError naming `place` and the field where one of OnResume::same differs from that of
  /// `before`, which the run began with.
  void require_same(const Resolved& before, const std::string& place) const {
    Config then = before.config_, now = config_;
    for (const Field<Config>& field : table_->fields())
      if (field.info.on_resume == OnResume::same)
        require_same_text(field.info, text_of(field.at(then)), text_of(field.at(now)), place);
  }

 private:
  size_t row(std::string_view name, const std::string& place) const {
    const std::optional<size_t> found = table_->find(name);
    if (!found) throw_unknown(place, name, table_->names());
    return *found;
  }

  const FieldTable<Config>* table_;
  Config config_;
  std::vector<Origin> origins_;
};

/// The values as a table of text: name, value, unit, and what gave it; changed ones only where `all` is
/// false.
std::string explain(const std::vector<FieldValue>& values, bool all = true);
/// The values as an object of JSON, one key a line, which `Resolved::set_all` reads back.
std::string to_json(const std::vector<FieldValue>& values);
/// A page of reference in Markdown: name, flag, default, what it takes, what it is.
std::string reference_page(const std::vector<FieldValue>& values);

}  // namespace tessera::training

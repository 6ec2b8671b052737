#pragma once  // not in tessera.h

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "dist/train/config/json_document.h"

namespace tessera::training {

/// A name of an enumerator in flags, files and messages.
struct ChoiceName {
  int value;         ///< the enumerator
  const char* name;  ///< its name
};

/// A pointer to a member of an enumeration's type, and the names of its values.
class ChoicePointer {
 public:
  /// Of `member`; `names` must outlive this.
  template <class Enum>
  ChoicePointer(Enum* member, std::span<const ChoiceName> names)
      : member_(member),
        names_(names),
        get_([](const void* at) { return static_cast<int>(*static_cast<const Enum*>(at)); }),
        set_([](void* at, int value) { *static_cast<Enum*>(at) = static_cast<Enum>(value); }) {}
  /// The same, or in place of a name a file, of which the path ends in `suffix`: `path` has it, and is empty
  /// for a name.
  template <class Enum>
  ChoicePointer(Enum* member, std::span<const ChoiceName> names, std::string* path, const char* suffix)
      : ChoicePointer(member, names) {
    path_ = path;
    suffix_ = suffix;
  }

  /// The name of the value, or the path of the file.
  std::string name() const;
  /// Whether `name` is one of the names, or a path with the suffix; the member then has its value.
  bool set(std::string_view name) const;
  /// ".csv" where a file can take the place of a name, else "".
  std::string_view suffix() const { return suffix_; }
  /// All names, in order.
  std::span<const ChoiceName> names() const { return names_; }

 private:
  void* member_;
  std::span<const ChoiceName> names_;
  int (*get_)(const void*);
  void (*set_)(void*, int);
  std::string* path_ = nullptr;  // of a file; null: names alone
  const char* suffix_ = "";
};

/// A pointer to a member of a configuration.
using FieldPointer = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, ChoicePointer>;

/// What a resumed run may do with a field.
enum class OnResume {
  same,        ///< it keeps the checkpoint's value; another one is an error
  may_differ,  ///< it is in the checkpoint; another value replaces it
  not_saved    ///< it is not in the checkpoint
};

/// The values that a number may have.
struct Limits {
  double low = std::numeric_limits<double>::lowest();  ///< the smallest one
  double high = std::numeric_limits<double>::max();    ///< the largest one
  bool is_below_high = false;                          ///< the value must be below `high`, not equal to it
};

/// What is known of a field besides its place in a configuration.
struct FieldInfo {
  const char* name;       ///< with underscores, as in files; the flag is --name with dashes
  const char* help;       ///< what it is, in a line
  const char* unit = "";  ///< "steps", "elements", "seconds"; "" for none
  Limits limits = {};     ///< of a number
  OnResume on_resume = OnResume::not_saved;  ///< what a resumed run may do with it

  /// The same but for one thing, for a table in which a shared option differs (`shared_option`).
  /// @{
  FieldInfo with_name(const char* other) const { return changed(&FieldInfo::name, other); }
  FieldInfo with_help(const char* other) const { return changed(&FieldInfo::help, other); }
  FieldInfo with_unit(const char* other) const { return changed(&FieldInfo::unit, other); }
  FieldInfo with_limits(const Limits& other) const { return changed(&FieldInfo::limits, other); }
  FieldInfo with_on_resume(OnResume other) const { return changed(&FieldInfo::on_resume, other); }
  /// @}

 private:
  template <class T>
  FieldInfo changed(T FieldInfo::*member, const T& value) const {
    FieldInfo other = *this;
    other.*member = value;
    return other;
  }
};

/// A row of a table of fields: an option of a program or of the library.
template <class Config>
struct Field {
  FieldInfo info;                           ///< name, help, limits
  std::function<FieldPointer(Config&)> at;  ///< the member of a configuration
};

/// "micro_batch_size" as a flag: "--micro-batch-size".
std::string flag_of(std::string_view name);

/// "true or false", "a whole number from 1 to 8", "one of pre, post and none": what a field takes.
std::string expected_of(const FieldInfo& info, const FieldPointer& at);

/// A field's value as text, which `set_text` reads back to the same value.
std::string text_of(const FieldPointer& at);
/// The same as JSON: 3, true, "pre".
std::string json_of(const FieldPointer& at);

/// Sets a field from text. Throws ConfigError: `place`, what is expected, the text.
void set_text(const FieldInfo& info, const FieldPointer& at, std::string_view value,
              const std::string& place);
/// Sets a field from a JSON value. Throws ConfigError: place, what is expected, the value.
void set_json(const FieldInfo& info, const FieldPointer& at, const JsonNode& value);
/// Throws ConfigError naming `place` unless the field's value is one that its limits allow.
void check_limits(const FieldInfo& info, const FieldPointer& at, const std::string& place);

}  // namespace tessera::training

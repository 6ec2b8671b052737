#include "dist/train/deepspeed/configuration.h"

#include <json/json.h>

#include <string_view>

#include "dist/train/deepspeed/keys.h"
#include "tensor/error.h"
#include "tensor/nearest_name.h"

namespace tessera::training::deepspeed {
namespace {

constexpr dist::Strategy stages[] = {dist::Strategy::no_shard, dist::Strategy::shard_optim,
                                     dist::Strategy::shard_grad_op, dist::Strategy::full_shard};

/// The keys beside `path`, without what stands before the last dot.
std::vector<std::string> siblings(std::string_view path) {
  const size_t dot = path.rfind('.');
  const std::string_view block = dot == std::string_view::npos ? "" : path.substr(0, dot + 1);
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    const std::string_view other = key.path;
    if (other.starts_with(block) && other.find('.', block.size()) == std::string_view::npos)
      names.emplace_back(other.substr(block.size()));
  }
  return names;
}

std::string or_nearest(const std::string& name, const std::vector<std::string>& names) {
  const std::string near = nearest_name(name, names);
  return near.empty() ? "" : text("; the nearest is '", near, "'");
}

/// Throws ConfigError unless the value is of the key's kind. null stands for "not given" where it is the
/// default.
void check_kind(const Key& key, const JsonNode& value) {
  const std::string_view standard = key.standard;
  if (value.kind() == "null" && standard == "null") return;
  switch (key.kind) {
    case Kind::flag:
      return static_cast<void>(value.as_bool());
    case Kind::integer:
      return static_cast<void>(value.as_integer());
    case Kind::number:
      return static_cast<void>(value.as_number());
    case Kind::text:
      return static_cast<void>(value.as_text());
    case Kind::list:
      return static_cast<void>(value.elements());
    case Kind::table:
      return static_cast<void>(value.members());
    case Kind::free:
      return;
  }
}

/// Whether the value is that of the JSON literal.
bool equals(const JsonNode& value, std::string_view literal) {
  if (literal == "null" || literal == "true" || literal == "false") return value.given() == literal;
  if (literal.starts_with('"')) return value.is(literal.substr(1, literal.size() - 2));
  return value.is_number() && value.as_number() == std::stod(std::string(literal));
}

class Reader {
 public:
  explicit Reader(Configuration& configuration) : out_(configuration) {}

  void read() {
    for (const auto& [name, value] : out_.document->root().members()) {
      if (find_key(name)) {
        visit(value);
      } else {
        out_.user_fields.emplace_back(name, value);
        out_.warnings.push_back(text(value.place(), ": no key of DeepSpeed, kept for the program",
                                     or_nearest(name, siblings(name))));
      }
    }
    apply_precision();
  }

 private:
  void visit(const JsonNode& value) {
    const Key* const key = find_key(value.path());
    const std::string name = value.path().substr(value.path().rfind('.') + 1);
    require<ConfigError>(key != nullptr, value.place(), ": there is no such key",
                         or_nearest(name, siblings(value.path())));
    require<ConfigError>(key->effect != Effect::refused, value.place(), ": this key is refused: ", key->note);
    if (value.is("auto")) {
      require<ConfigError>(key->may_be_auto, value.place(), ": expected ", expected(*key), ", got \"auto\"");
      if (*key->field) use_program_value(key->field);
      return;
    }
    check_kind(*key, value);
    if (key->effect == Effect::neutral) {
      const char* const neutral = key->neutral ? key->neutral : key->standard;
      require<ConfigError>(equals(value, neutral) || equals(value, key->standard), value.place(), ": only ",
                           neutral, " is accepted, got ", value.given(), ": ", key->note);
    }
    if (key->effect == Effect::honoured && !(value.kind() == "null")) apply(*key, value);
    if (key->kind == Kind::table)
      for (const auto& [member, inner] : value.members()) visit(inner);
  }

  static std::string expected(const Key& key) {
    switch (key.kind) {
      case Kind::flag:
        return "true or false";
      case Kind::integer:
        return "a whole number";
      case Kind::number:
        return "a number";
      case Kind::text:
        return "a text";
      case Kind::list:
        return "a list, [...]";
      case Kind::table:
        return "a table, {...}";
      case Kind::free:
        break;
    }
    return "a value";
  }

  /// An "auto": the program's value holds, where it gives one.
  void use_program_value(const char* field) {
    if (!out_.training.is_given(field)) return;
    out_.training.mark(field, {Source::derived, "auto: the program's value"});
  }

  void apply(const Key& key, const JsonNode& value) {
    const std::string_view path = key.path;
    if (*key.field) {
      const bool is_size = path.ends_with("_batch_size") || path == "train_micro_batch_size_per_gpu" ||
                           path == "gradient_accumulation_steps";
      if (is_size && value.as_integer() < 1) value.fail("a whole number of at least 1");
      out_.training.set(key.field, value);
    } else if (path == "zero_optimization.stage") {
      const int64_t stage = value.as_integer();
      if (stage < 0 || stage > 3) value.fail("a stage from 0 to 3");
      out_.training.set("strategy", dist::name_of(stages[stage]), {Source::file, value.file_and_line()});
    } else if (path == "fp16.enabled" || path == "bf16.enabled") {
      if (!value.as_bool()) return;
      if (precision_) value.fail("either fp16 or bf16");
      precision_ = value;
      is_half_ = path == "fp16.enabled";
    } else if (path == "activation_checkpointing.cpu_checkpointing") {
      if (value.as_bool())
        out_.training.set("activation_offload", "cpu", {Source::file, value.file_and_line()});
    } else if (path == "optimizer") {
      out_.optimizer = named(value);
    } else if (path == "scheduler") {
      out_.schedule = named(value);
    }
  }

  void apply_precision() {
    if (precision_)
      out_.training.set("precision", is_half_ ? "16" : "bf16", {Source::file, precision_->file_and_line()});
  }

  Configuration& out_;
  std::optional<JsonNode> precision_;
  bool is_half_ = false;
};

/// Replaces every "auto" by the value of its field.
void replace_auto(Json::Value& value, const std::string& path, const std::vector<FieldValue>& fields) {
  if (value.isObject())
    for (const std::string& name : value.getMemberNames())
      replace_auto(value[name], path.empty() ? name : path + "." + name, fields);
  if (!value.isString() || value.asString() != "auto") return;
  const auto field_of = [&](std::string_view name) {
    for (const FieldValue& field : fields)
      if (name == field.info.name) return field.json;
    return std::string("null");
  };
  const Key* const key = find_key(path);
  if (path == "fp16.enabled" || path == "bf16.enabled") {
    value = field_of("precision") == (path == "fp16.enabled" ? "\"16\"" : "\"bf16\"");
  } else if (key && *key->field) {
    Json::CharReaderBuilder builder;
    const std::string json = field_of(key->field);
    std::string errors;
    const std::unique_ptr<Json::CharReader> reader(builder.newCharReader());
    reader->parse(json.data(), json.data() + json.size(), &value, &errors);
  } else if (key) {
    value = Json::Value();
  }
}

}  // namespace

Named named(const JsonNode& block) {
  Named out{.type = "", .node = block, .params = {}};
  for (const auto& [name, value] : block.members()) {
    if (name == "type") out.type = value.as_text();
    if (name == "params") out.params = value.members();
  }
  if (out.type.empty()) block.fail("a block with a 'type'");
  return out;
}

Configuration read(JsonDocument document, Resolved<TrainingConfig> program, int64_t ranks) {
  Configuration configuration{.document = std::make_shared<const JsonDocument>(std::move(document)),
                              .training = std::move(program),
                              .optimizer = {},
                              .schedule = {},
                              .reports = {},
                              .user_fields = {},
                              .warnings = {}};
  Reader(configuration).read();
  configuration.reports = reports_of(*configuration.document);
  try {
    resolve(configuration.training, ranks);
  } catch (const ConfigError& error) {
    throw ConfigError(text(configuration.document->name(), ": ", error.what()));
  }
  return configuration;
}

std::string resolved_json(const Configuration& configuration) {
  Json::Value root = configuration.document->root().value();
  const std::vector<FieldValue> fields = configuration.training.values();
  replace_auto(root, "", fields);
  root["train_batch_size"] = Json::Int64{configuration.training->train_batch_size};
  root["train_micro_batch_size_per_gpu"] = Json::Int64{configuration.training->micro_batch_size};
  root["gradient_accumulation_steps"] = Json::Int64{configuration.training->accumulation_steps};
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "  ";
  builder["commentStyle"] = "None";
  builder["precision"] = 17;
  return Json::writeString(builder, root) + "\n";
}

}  // namespace tessera::training::deepspeed

#include "dist/checkpoint/checkpoint_meta.h"

#include <json/json.h>
#include <xxhash.h>

#include <cmath>

#include "tensor/io/strict_json.h"
#include "tensor/io/utf8.h"

namespace tessera::dist {
namespace {

constexpr const char* format_name = "tessera-checkpoint";
constexpr int64_t format_version = 1;

/// Reads the fields of a JSON object by name and type. `finish` refuses fields that were not read.
class Fields {
 public:
  Fields(const Json::Value& object, std::string where) : object_(object), where_(std::move(where)) {
    require<CheckpointError>(object.isObject(), where_, ": expected an object");
  }

  bool has(const char* name) const { return object_.isMember(name); }

  const Json::Value& get(const char* name) {
    require<CheckpointError>(has(name), where_, ": has no '", name, "'");
    ++read_;
    return object_[name];
  }
  int64_t count(const char* name) {
    const Json::Value& value = get(name);
    expect(is_integer(value) && value.isInt64() && value.asInt64() >= 0, name, "an integer from 0");
    return value.asInt64();
  }
  uint64_t unsigned_count(const char* name) {
    const Json::Value& value = get(name);
    expect(is_integer(value) && value.isUInt64(), name, "an integer from 0");
    return value.asUInt64();
  }
  double number(const char* name) {
    const Json::Value& value = get(name);
    expect(value.isNumeric() && std::isfinite(value.asDouble()), name, "a finite number");
    return value.asDouble();
  }
  std::string string(const char* name) {
    const Json::Value& value = get(name);
    expect(value.isString(), name, "a string");
    return value.asString();
  }
  uint64_t hash(const char* name) {
    const std::string digits = string(name);
    expect(digits.size() == 16 && digits.find_first_not_of("0123456789abcdef") == std::string::npos, name,
           "16 hexadecimal digits");
    return std::stoull(digits, nullptr, 16);
  }
  /// At most 8 integers from 0.
  Shape shape(const char* name) {
    const Json::Value& value = get(name);
    expect(value.isArray() && value.size() <= Shape::max_ndim, name, "an array of at most 8 integers");
    Shape result;
    for (const Json::Value& extent : value) {
      expect(is_integer(extent) && extent.isInt64() && extent.asInt64() >= 0, name, "integers from 0");
      result.push_back(extent.asInt64());
    }
    return result;
  }
  io::Metadata strings(const char* name) {
    const Json::Value& value = get(name);
    expect(value.isObject(), name, "an object of strings");
    io::Metadata result;
    for (const std::string& key : value.getMemberNames()) {
      expect(value[key].isString(), name, "an object of strings");
      result[key] = value[key].asString();
    }
    return result;
  }
  Fields object(const char* name) { return Fields(get(name), where_ + ": " + name); }

  /// Throws unless every field was read.
  void finish() const {
    require<CheckpointError>(read_ == object_.size(), where_, ": expected ", read_, " fields, got ",
                             object_.size());
  }
  const std::string& where() const { return where_; }

 private:
  // Json::Value::isInt accepts 1.0 too.
  static bool is_integer(const Json::Value& value) {
    return value.type() == Json::intValue || value.type() == Json::uintValue;
  }
  void expect(bool condition, const char* name, const char* what) const {
    require<CheckpointError>(condition, where_, ": '", name, "': expected ", what);
  }

  const Json::Value& object_;
  std::string where_;
  Json::ArrayIndex read_ = 0;
};

Json::Value write_shape(const Shape& shape) {
  Json::Value array(Json::arrayValue);
  for (int64_t extent : shape) array.append(Json::Int64(extent));
  return array;
}

Json::Value write_strings(const io::Metadata& strings) {
  Json::Value object(Json::objectValue);
  for (const auto& [key, value] : strings) {
    require<CheckpointError>(!io::first_not_utf8(key) && !io::first_not_utf8(value), meta_file_name, ": '",
                             io::escaped_bytes(key), "': expected text in UTF-8");
    object[key] = value;
  }
  return object;
}

Json::Value write_chunk(const Chunk& chunk) {
  Json::Value value;
  value["group"] = chunk.tensor.group;
  value["name"] = chunk.tensor.name;
  value["dtype"] = to_string(chunk.dtype);
  value["shape"] = write_shape(chunk.shape);
  value["box_start"] = write_shape(chunk.range.start);
  value["box_shape"] = write_shape(chunk.range.extent);
  value["begin"] = Json::Int64(chunk.range.begin);
  value["end"] = Json::Int64(chunk.range.end);
  value["key"] = chunk.key;
  return value;
}

/// Throws when the number of bytes of such a tensor overflows 64 bits.
void require_no_overflow(const Shape& shape, DType dtype, const std::string& where) {
  int64_t bytes = size_of(dtype);
  for (int64_t extent : shape)
    require<CheckpointError>(!__builtin_mul_overflow(bytes, extent, &bytes), where,
                             ": expected a tensor of fewer than 2^63 bytes, got shape ", shape, " of ",
                             dtype);
}

Chunk read_chunk(Fields fields) {
  Chunk chunk;
  chunk.tensor = {fields.string("group"), fields.string("name")};
  const std::string where = text(fields.where(), ": tensor '", chunk.tensor, "'");
  const std::string dtype = fields.string("dtype");
  try {
    chunk.dtype = parse_dtype(dtype);
  } catch (const ValueError& error) {
    throw CheckpointError(text(where, ": ", error.what()));
  }
  chunk.shape = fields.shape("shape");
  require_no_overflow(chunk.shape, chunk.dtype, where);
  chunk.range = {fields.shape("box_start"), fields.shape("box_shape"), fields.count("begin"),
                 fields.count("end")};
  chunk.key = fields.string("key");
  fields.finish();
  const std::string problem = problem_of(chunk.range, chunk.shape);
  require<CheckpointError>(problem.empty(), where, ": ", problem);
  return chunk;
}

Json::Value write_file(const FileRecord& record) {
  Json::Value value;
  value["name"] = record.name;
  value["bytes"] = Json::Int64(record.bytes);
  value["xxh3"] = hash_text(record.xxh3);
  value["chunks"] = Json::Value(Json::arrayValue);
  for (const Chunk& chunk : record.chunks) value["chunks"].append(write_chunk(chunk));
  return value;
}

FileRecord read_file(Fields fields) {
  FileRecord record;
  record.name = fields.string("name");
  require_file_name(record.name, fields.where());
  record.bytes = fields.count("bytes");
  record.xxh3 = fields.hash("xxh3");
  const Json::Value& chunks = fields.get("chunks");
  require<CheckpointError>(chunks.isArray(), fields.where(), ": 'chunks': expected an array");
  for (const Json::Value& chunk : chunks) record.chunks.push_back(read_chunk(Fields(chunk, fields.where())));
  fields.finish();
  return record;
}

Json::Value write_state(const TrainingState& state) {
  Json::Value value;
  value["step"] = Json::Int64(state.step);
  value["seed"] = Json::UInt64(state.seed);
  value["data_position"] = Json::Int64(state.data_position);
  value["schedule_step"] = Json::Int64(state.schedule_step);
  value["loss_scale"]["scale"] = state.loss_scale.scale;
  value["loss_scale"]["hysteresis"] = Json::Int64(state.loss_scale.hysteresis);
  value["loss_scale"]["good_steps"] = Json::Int64(state.loss_scale.good_steps);
  if (state.validation_loss && std::isfinite(*state.validation_loss))
    value["validation_loss"] = *state.validation_loss;
  return value;
}

TrainingState read_state(Fields fields) {
  TrainingState state;
  state.step = fields.count("step");
  state.seed = fields.unsigned_count("seed");
  state.data_position = fields.count("data_position");
  state.schedule_step = fields.count("schedule_step");
  Fields scale = fields.object("loss_scale");
  state.loss_scale = {scale.number("scale"), scale.count("hysteresis"), scale.count("good_steps")};
  scale.finish();
  if (fields.has("validation_loss")) state.validation_loss = fields.number("validation_loss");
  fields.finish();
  return state;
}

std::string canonical_text(const Json::Value& value, const char* indentation) {
  Json::StreamWriterBuilder builder;
  builder["indentation"] = indentation;
  builder["commentStyle"] = "None";  // also puts short arrays on one line
  builder["precision"] = 17;         // every double is read back unchanged
  return Json::writeString(builder, value);
}

uint64_t content_hash(const Json::Value& root) {
  const std::string bytes = canonical_text(root, "");
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

GroupShard unsharded(const TensorGroup& group) {
  GroupShard result{group.name, {}};
  for (const NamedTensor& item : group.tensors) {
    result.shards.push_back({item.name, item.tensor.shape(), full_range(item.tensor.shape()), item.tensor});
    result.shards.back().rounded = item.rounded;
  }
  return result;
}

std::string to_string(const TensorId& id) {
  return id.group + "/" + id.name;
}

std::string hash_text(uint64_t hash) {
  std::string digits(16, '0');
  for (size_t i = 16; i-- > 0; hash >>= 4) digits[i] = "0123456789abcdef"[hash & 15];
  return digits;
}

void require_meta_size(int64_t bytes, const std::string& where) {
  require<CheckpointError>(bytes <= meta_size_limit, where, ": expected at most ", meta_size_limit,
                           " bytes, got ", bytes);
}

void require_file_name(const std::string& name, const std::string& where) {
  const bool plain = !name.empty() && name.find('/') == std::string::npos && name[0] != '.';
  require<CheckpointError>(plain, where, ": '", name, "' is not the name of a file in the folder");
}

std::string to_json(const FileRecord& record) {
  return canonical_text(write_file(record), "");
}

FileRecord parse_file_record(const std::string& json, const std::string& where) {
  Json::Value root;
  io::parse_strict_json(json, where, root);
  return read_file(Fields(root, where));
}

std::string to_json(const CheckpointMeta& meta) {
  Json::Value root;
  root["format"] = format_name;
  root["version"] = Json::Int64(format_version);
  root["training"] = write_state(meta.state);
  root["model"] = write_strings(meta.state.model);
  root["run"] = write_strings(meta.state.run);
  root["files"] = Json::Value(Json::arrayValue);
  for (const FileRecord& record : meta.files) root["files"].append(write_file(record));
  root["xxh3"] = hash_text(content_hash(root));
  return canonical_text(root, " ") + "\n";
}

CheckpointMeta parse_checkpoint_meta(const std::string& json, const std::string& where) {
  Json::Value root;
  io::parse_strict_json(json, where, root);
  Fields fields(root, where);
  require<CheckpointError>(fields.string("format") == format_name, where,
                           ": not a checkpoint of Tessera: expected 'format' to be '", format_name, "'");
  const int64_t version = fields.count("version");
  require<CheckpointError>(version == format_version, where, ": expected version ", format_version, ", got ",
                           version);
  const uint64_t hash = fields.hash("xxh3");
  Json::Value covered = root;
  covered.removeMember("xxh3");
  require<CheckpointError>(content_hash(covered) == hash, where,
                           ": its content is not what was written: expected xxh3 ", hash_text(hash), ", got ",
                           hash_text(content_hash(covered)));
  CheckpointMeta meta;
  meta.state = read_state(fields.object("training"));
  meta.state.model = fields.strings("model");
  meta.state.run = fields.strings("run");
  const Json::Value& files = fields.get("files");
  require<CheckpointError>(files.isArray(), where, ": 'files': expected an array");
  for (const Json::Value& file : files) meta.files.push_back(read_file(Fields(file, where)));
  fields.finish();
  return meta;
}

}  // namespace tessera::dist

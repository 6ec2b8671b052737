#include "dist/state/safetensors.h"

#include <json/json.h>

#include <algorithm>
#include <bit>

#include "dist/state/strict_json.h"

namespace tessera::dist {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr int64_t length_bytes = 8;
// The reference implementation's limit: a longer header is a corrupt length.
constexpr int64_t header_limit = 100'000'000;
constexpr const char* metadata_key = "__metadata__";

struct DTypeName {
  const char* name;
  DType dtype;
};
constexpr DTypeName dtype_names[] = {{"F64", f64}, {"F32", f32}, {"BF16", bf16}, {"F16", f16},
                                     {"I64", i64}, {"I32", i32}, {"U8", u8},     {"BOOL", boolean}};

/// Reads the header and says in which file, and at which tensor, it is wrong.
class HeaderReader {
 public:
  HeaderReader(const InputFile& file) : file_(file) {}

  void read(Metadata& metadata, std::vector<SafetensorsEntry>& entries) {
    const Json::Value root = parse();
    for (const std::string& name : root.getMemberNames()) {
      if (name == metadata_key)
        read_metadata(root[name], metadata);
      else
        entries.push_back(read_entry(name, root[name]));
    }
    check_ranges(entries);
  }

 private:
  template <class... Pieces>
  void expect(bool condition, const Pieces&... pieces) const {
    if (!condition) throw CheckpointError(text(file_.path(), ": ", pieces...));
  }

  Json::Value parse() {
    expect(file_.size() >= length_bytes, "not a safetensors file: expected at least 8 bytes, got ",
           file_.size());
    uint64_t length = 0;
    file_.read(0, &length, length_bytes);
    expect(length <= header_limit, "not a safetensors file: a header of ", length, " bytes (the limit is ",
           header_limit, ")");
    const int64_t n = static_cast<int64_t>(length);
    expect(n <= file_.size() - length_bytes, "truncated: the header has ", n, " bytes, the file ",
           file_.size() - length_bytes, " after its length");
    std::string header(length, '\0');
    file_.read(length_bytes, header.data(), n);
    expect(!header.empty() && header.front() == '{',
           "not a safetensors file: its header does not start with '{'");
    data_begin_ = length_bytes + n;

    Json::Value root;
    parse_strict_json(header, file_.path() + ": header", root);
    return root;
  }

  void read_metadata(const Json::Value& value, Metadata& metadata) const {
    expect(value.isObject(), metadata_key, ": expected an object of strings");
    for (const std::string& key : value.getMemberNames()) {
      expect(value[key].isString(), metadata_key, ": expected a string under '", key, "'");
      metadata[key] = value[key].asString();
    }
  }

  int64_t read_count(const std::string& name, const char* field, const Json::Value& value) const {
    // Json::Value calls 1.0 an integer too; the format does not.
    const bool integer = value.type() == Json::intValue || value.type() == Json::uintValue;
    expect(integer && value.isInt64() && value.asInt64() >= 0, "tensor '", name, "': ", field,
           ": expected integers from 0, got ", integer ? value.asString() : "something else");
    return value.asInt64();
  }

  SafetensorsEntry read_entry(const std::string& name, const Json::Value& value) const {
    expect(value.isObject() && value.size() == 3 && value.isMember("dtype") && value.isMember("shape") &&
               value.isMember("data_offsets"),
           "tensor '", name, "': expected exactly dtype, shape and data_offsets");
    SafetensorsEntry entry;
    entry.name = name;
    entry.dtype = read_dtype(name, value["dtype"]);
    int64_t bytes = size_of(entry.dtype);
    const Json::Value& dims = value["shape"];
    expect(dims.isArray() && dims.size() <= Shape::max_rank, "tensor '", name,
           "': expected a shape of at most ", Shape::max_rank, " dimensions");
    for (const Json::Value& dim : dims) {
      entry.shape.push_back(read_count(name, "shape", dim));
      expect(!__builtin_mul_overflow(bytes, entry.shape.back(), &bytes), "tensor '", name,
             "': its shape overflows 64 bits");
    }
    const Json::Value& offsets = value["data_offsets"];
    expect(offsets.isArray() && offsets.size() == 2, "tensor '", name,
           "': data_offsets: expected [begin, end]");
    const int64_t begin = read_count(name, "data_offsets", offsets[0]);
    const int64_t end = read_count(name, "data_offsets", offsets[1]);
    expect(end >= begin && end - begin == bytes, "tensor '", name, "': ", entry.shape, " ", entry.dtype,
           " takes ", bytes, " bytes, data_offsets [", begin, ", ", end, "] say ", end - begin);
    expect(end <= file_.size() - data_begin_, "truncated: tensor '", name, "' ends at byte ", end,
           " of the data, the file has ", file_.size() - data_begin_);
    entry.offset = data_begin_ + begin;
    return entry;
  }

  DType read_dtype(const std::string& name, const Json::Value& value) const {
    expect(value.isString(), "tensor '", name, "': dtype: expected a string");
    const std::string given = value.asString();
    for (const DTypeName& known : dtype_names)
      if (given == known.name) return known.dtype;
    expect(false, "tensor '", name, "': dtype '", given,
           "' is not one of F64, F32, BF16, F16, I64, I32, U8, BOOL");
    return f32;
  }

  /// Sorts by position; the ranges must follow one another from the header to the file's end.
  void check_ranges(std::vector<SafetensorsEntry>& entries) const {
    std::stable_sort(entries.begin(), entries.end(),
                     [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                       return a.offset != b.offset ? a.offset < b.offset : a.nbytes() < b.nbytes();
                     });
    int64_t end = data_begin_;
    for (const SafetensorsEntry& entry : entries) {
      expect(entry.offset >= end, "tensor '", entry.name, "' starts at byte ", entry.offset - data_begin_,
             " of the data, inside the tensor before it, which ends at ", end - data_begin_);
      expect(entry.offset == end, "bytes ", end - data_begin_, " to ", entry.offset - data_begin_,
             " of the data belong to no tensor");
      end += entry.nbytes();
    }
    expect(end == file_.size(), "the tensors end at byte ", end, ", the file has ", file_.size());
  }

  const InputFile& file_;
  int64_t data_begin_ = 0;
};

std::string make_header(const std::vector<SafetensorsEntry>& entries, const Metadata& metadata) {
  Json::Value root(Json::objectValue);
  for (const auto& [key, value] : metadata) root[metadata_key][key] = value;
  for (const SafetensorsEntry& entry : entries) {
    Json::Value& item = root[entry.name];
    item["dtype"] = safetensors_dtype_name(entry.dtype);
    item["shape"] = Json::Value(Json::arrayValue);
    for (int64_t extent : entry.shape) item["shape"].append(Json::Int64(extent));
    item["data_offsets"].append(Json::Int64(entry.offset));
    item["data_offsets"].append(Json::Int64(entry.offset + entry.nbytes()));
  }
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  std::string header = Json::writeString(builder, root);
  while (header.size() % 8 != 0) header += ' ';
  return header;
}

}  // namespace

std::string safetensors_dtype_name(DType dtype) {
  for (const DTypeName& known : dtype_names)
    if (known.dtype == dtype) return known.name;
  return to_string(dtype);
}

SafetensorsFile::SafetensorsFile(std::string path) : file_(std::move(path)) {
  HeaderReader(file_).read(metadata_, entries_);
  for (size_t i = 0; i < entries_.size(); ++i) by_name_[entries_[i].name] = i;
}

const SafetensorsEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  const SafetensorsEntry* found = find(name);
  require<CheckpointError>(found != nullptr, path(), ": has no tensor '", name, "'");
  return *found;
}

Tensor SafetensorsFile::read(const std::string& name) const {
  const SafetensorsEntry& found = entry(name);
  Tensor tensor = Tensor::empty(found.shape, found.dtype);
  read(found, 0, found.shape.numel(), tensor.raw_data());
  return tensor;
}

void SafetensorsFile::read(const SafetensorsEntry& entry, int64_t begin, int64_t end, void* out) const {
  require<IndexError>(0 <= begin && begin <= end && end <= entry.shape.numel(), path(), ": tensor '",
                      entry.name, "' has elements [0, ", entry.shape.numel(), "), asked for [", begin, ", ",
                      end, ")");
  const int64_t size = size_of(entry.dtype);
  file_.read(entry.offset + begin * size, out, (end - begin) * size);
  if (entry.dtype != boolean) return;
  const auto* bytes = static_cast<const unsigned char*>(out);
  const auto* bad = std::find_if(bytes, bytes + (end - begin), [](unsigned char byte) { return byte > 1; });
  require<CheckpointError>(bad == bytes + (end - begin), path(), ": tensor '", entry.name,
                           "': expected bools of 0 or 1, element ", begin + (bad - bytes), " is not");
}

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<SafetensorsEntry> tensors,
                                     const Metadata& metadata)
    : file_(std::move(path)), entries_(std::move(tensors)) {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return size_of(a.dtype) > size_of(b.dtype);
                   });
  std::map<std::string, int> seen;
  int64_t end = 0;
  for (SafetensorsEntry& entry : entries_) {
    require<CheckpointError>(seen[entry.name]++ == 0 && entry.name != metadata_key, file_.path(),
                             ": tensor '", entry.name, "': a name of its own was expected");
    entry.offset = end;
    end += entry.nbytes();
  }
  const std::string header = make_header(entries_, metadata);
  const uint64_t length = header.size();
  file_.append(&length, length_bytes);
  file_.append(header.data(), static_cast<int64_t>(length));
  for (SafetensorsEntry& entry : entries_) entry.offset += file_.size();
  size_ = file_.size() + end;
}

void SafetensorsWriter::append(const Tensor& tensor) {
  require<CheckpointError>(next_ < entries_.size(), file_.path(), ": all ", entries_.size(),
                           " declared tensors are written, got ", describe(tensor));
  const SafetensorsEntry& entry = entries_[next_++];
  require<CheckpointError>(tensor.defined() && tensor.dtype() == entry.dtype && tensor.shape() == entry.shape,
                           file_.path(), ": tensor '", entry.name, "': expected ", entry.shape, " ",
                           entry.dtype, ", got ", describe(tensor));
  append(tensor.to(cpu()).contiguous().raw_data(), tensor.nbytes());
}

uint64_t SafetensorsWriter::commit() {
  require<CheckpointError>(file_.size() == size_, file_.path(), ": expected ", size_, " bytes, ",
                           file_.size(), " were written");
  const uint64_t hash = file_.xxh3();
  file_.commit();
  return hash;
}

uint64_t write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                           const Metadata& metadata) {
  std::vector<SafetensorsEntry> layout;
  std::map<std::string, const Tensor*> by_name;
  for (const NamedTensor& item : tensors) {
    layout.push_back({item.name, item.tensor.dtype(), item.tensor.shape()});
    by_name[item.name] = &item.tensor;
  }
  SafetensorsWriter writer(path, std::move(layout), metadata);
  for (const SafetensorsEntry& entry : writer.entries()) writer.append(*by_name.at(entry.name));
  return writer.commit();
}

}  // namespace tessera::dist

#include "tensor/io/safetensors_header.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "tensor/error.h"
#include "tensor/io/strict_json.h"
#include "tensor/io/utf8.h"

namespace tessera::io {
namespace {

// The reference implementation's limit: a longer header is a corrupt length.
constexpr uint64_t header_limit = 100'000'000;
constexpr const char* metadata_key = "__metadata__";

struct DTypeName {
  const char* name;
  DType dtype;
};
constexpr DTypeName dtype_names[] = {{"F64", f64}, {"F32", f32}, {"BF16", bf16}, {"F16", f16},
                                     {"I64", i64}, {"I32", i32}, {"U8", u8},     {"BOOL", boolean}};

/// A dtype of the format that Tensor does not have.
struct UnsupportedDType {
  const char* name;
  int64_t bits;
};
constexpr UnsupportedDType unsupported_dtypes[] = {
    {"I8", 8},          {"I16", 16},    {"U16", 16},    {"U32", 32},    {"U64", 64},
    {"C64", 64},        {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};

int64_t bits_of(const SafetensorsEntry& entry) {
  if (entry.unsupported_dtype.empty()) return 8 * size_of(entry.dtype);
  for (const UnsupportedDType& known : unsupported_dtypes)
    if (entry.unsupported_dtype == known.name) return known.bits;
  return 0;
}

/// The bytes of a tensor, or -1 where 64 bits do not hold them, or the bits are not a multiple of 8.
int64_t checked_bytes(const SafetensorsEntry& entry) {
  int64_t bits = bits_of(entry);
  for (const int64_t extent : entry.shape)
    if (__builtin_mul_overflow(bits, extent, &bits)) return -1;
  return bits % 8 == 0 ? bits / 8 : -1;
}

/// Reads a header. Its errors name the file and the tensor.
class HeaderReader {
 public:
  HeaderReader(std::string_view json, int64_t data_size, const std::string& where)
      : json_(json), data_size_(data_size), where_(where), reader_(json, where + ": header") {}

  SafetensorsHeader read() {
    expect(!json_.empty() && json_.front() == '{',
           "not a safetensors file: its header does not start with '{'");
    SafetensorsHeader header;
    reader_.object([&](const std::string& name) {
      if (name == metadata_key)
        read_metadata(header.metadata);
      else
        header.entries.push_back(read_entry(name));
    });
    reader_.finish();
    check_ranges(header.entries);
    return header;
  }

 private:
  using Kind = JsonReader::Kind;

  template <class... Arguments>
  void expect(bool condition, const Arguments&... arguments) const {
    if (!condition) throw CheckpointError(text(where_, ": ", arguments...));
  }

  void read_metadata(Metadata& metadata) {
    expect(reader_.kind() == Kind::object, metadata_key, ": expected an object of strings");
    reader_.object([&](const std::string& key) {
      expect(reader_.kind() == Kind::string, metadata_key, ": expected a string under '", key, "'");
      metadata[key] = reader_.string();
    });
  }

  SafetensorsEntry read_entry(const std::string& name) {
    constexpr const char* fields = "': expected exactly dtype, shape and data_offsets";
    expect(reader_.kind() == Kind::object, "tensor '", name, fields);
    SafetensorsEntry entry;
    entry.name = name;
    std::vector<int64_t> offsets;
    int known = 0;
    reader_.object([&](const std::string& field) {
      expect(field == "dtype" || field == "shape" || field == "data_offsets", "tensor '", name, fields);
      ++known;
      if (field == "dtype")
        read_dtype(entry);
      else if (field == "shape")
        read_shape(entry);
      else
        offsets = read_counts(name, "data_offsets");
    });
    expect(known == 3, "tensor '", name, fields);
    check_bytes(entry, offsets);
    return entry;
  }

  void read_dtype(SafetensorsEntry& entry) {
    expect(reader_.kind() == Kind::string, "tensor '", entry.name, "': dtype: expected a string");
    const std::string given = reader_.string();
    for (const DTypeName& known : dtype_names)
      if (given == known.name) {
        entry.dtype = known.dtype;
        return;
      }
    for (const UnsupportedDType& known : unsupported_dtypes)
      if (given == known.name) {
        entry.unsupported_dtype = given;
        return;
      }
    expect(false, "tensor '", entry.name, "': dtype '", given, "' is none of the format's");
  }

  void read_shape(SafetensorsEntry& entry) {
    const std::vector<int64_t> dims = read_counts(entry.name, "shape");
    expect(dims.size() <= Shape::max_ndim, "tensor '", entry.name, "': expected a shape of at most ",
           Shape::max_ndim, " dimensions");
    for (const int64_t dim : dims) entry.shape.push_back(dim);
  }

  std::vector<int64_t> read_counts(const std::string& name, const char* field) {
    expect(reader_.kind() == Kind::array, "tensor '", name, "': ", field, ": expected an array of integers");
    std::vector<int64_t> counts;
    reader_.array([&] {
      expect(reader_.kind() == Kind::number, "tensor '", name, "': ", field,
             ": expected integers from 0, got something else");
      const std::string digits(reader_.number());
      int64_t count = -1;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
      expect(error == std::errc() && end == digits.data() + digits.size() && digits[0] != '-', "tensor '",
             name, "': ", field, ": expected integers from 0, got ", digits);
      counts.push_back(count);
    });
    return counts;
  }

  void check_bytes(SafetensorsEntry& entry, const std::vector<int64_t>& offsets) const {
    const int64_t bytes = checked_bytes(entry);
    expect(bytes >= 0, "tensor '", entry.name,
           "': its shape overflows 64 bits, or is no whole number of bytes");
    expect(offsets.size() == 2, "tensor '", entry.name, "': data_offsets: expected [begin, end]");
    const int64_t begin = offsets[0], end = offsets[1];
    expect(end >= begin && end - begin == bytes, "tensor '", entry.name, "': ", entry.shape, " ",
           entry.unsupported_dtype.empty() ? to_string(entry.dtype) : entry.unsupported_dtype, " takes ",
           bytes, " bytes, data_offsets [", begin, ", ", end, "] say ", end - begin);
    expect(end <= data_size_, "truncated: tensor '", entry.name, "' ends at byte ", end,
           " of the data, the file has ", data_size_);
    entry.offset = begin;
  }

  /// The ranges, ordered by offset, must cover the data without gaps and overlaps.
  void check_ranges(const std::vector<SafetensorsEntry>& entries) const {
    std::vector<const SafetensorsEntry*> ordered;
    for (const SafetensorsEntry& entry : entries) ordered.push_back(&entry);
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
                       return a->offset != b->offset ? a->offset < b->offset : a->nbytes() < b->nbytes();
                     });
    int64_t end = 0;
    for (const SafetensorsEntry* entry : ordered) {
      expect(entry->offset >= end, "tensor '", entry->name, "' starts at byte ", entry->offset,
             " of the data, inside the tensor before it, which ends at ", end);
      expect(entry->offset == end, "bytes ", end, " to ", entry->offset, " of the data belong to no tensor");
      end += entry->nbytes();
    }
    expect(end == data_size_, "the tensors end at byte ", end, " of the data, the file has ", data_size_);
  }

  std::string_view json_;
  int64_t data_size_;
  const std::string& where_;
  JsonReader reader_;
};

void require_utf8(std::string_view bytes, const char* what, const std::string& where) {
  require<CheckpointError>(!first_not_utf8(bytes), where, ": ", what, " '", escaped_bytes(bytes),
                           "' is not UTF-8, which the format asks for");
}

void append_entry(const SafetensorsEntry& entry, std::string& json) {
  append_json_string(entry.name, json);
  json += ":{\"dtype\":\"" + entry.dtype_name() + "\",\"shape\":[";
  for (int d = 0; d < entry.shape.ndim(); ++d) json += (d == 0 ? "" : ",") + std::to_string(entry.shape[d]);
  json += text("],\"data_offsets\":[", entry.offset, ",", entry.offset + entry.nbytes(), "]}");
}

void append_metadata(const Metadata& metadata, const std::string& where, std::string& json) {
  append_json_string(metadata_key, json);
  json += ":{";
  for (const auto& [key, value] : metadata) {
    require_utf8(key, "the metadata key", where);
    require<CheckpointError>(!first_not_utf8(value), where, ": the metadata under '", key, "' is not UTF-8");
    if (json.back() != '{') json += ',';
    append_json_string(key, json);
    json += ':';
    append_json_string(value, json);
  }
  json += '}';
}

}  // namespace

int64_t SafetensorsEntry::nbytes() const {
  return bits_of(*this) * shape.numel() / 8;
}

std::string SafetensorsEntry::dtype_name() const {
  return unsupported_dtype.empty() ? safetensors_dtype_name(dtype) : unsupported_dtype;
}

std::string safetensors_dtype_name(DType dtype) {
  for (const DTypeName& known : dtype_names)
    if (known.dtype == dtype) return known.name;
  return to_string(dtype);
}

void require_header_length(uint64_t bytes, const std::string& where) {
  require<CheckpointError>(bytes <= header_limit, where, ": not a safetensors file: a header of ", bytes,
                           " bytes (the limit is ", header_limit, ")");
}

SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_size,
                                           const std::string& where) {
  return HeaderReader(json, data_size, where).read();
}

int64_t place_tensors(std::vector<SafetensorsEntry>& entries, const std::string& where) {
  std::vector<SafetensorsEntry*> order;
  std::set<std::string> names;
  for (SafetensorsEntry& entry : entries) {
    require_utf8(entry.name, "the tensor name", where);
    require<CheckpointError>(names.insert(entry.name).second && entry.name != metadata_key, where,
                             ": tensor '", entry.name, "': a name of its own was expected");
    order.push_back(&entry);
  }
  std::stable_sort(order.begin(), order.end(), [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
    return bits_of(*a) > bits_of(*b);
  });
  int64_t end = 0;
  for (SafetensorsEntry* entry : order) {
    const int64_t bytes = checked_bytes(*entry);
    entry->offset = end;
    require<CheckpointError>(bytes >= 0 && !__builtin_add_overflow(end, bytes, &end), where, ": tensor '",
                             entry->name, "': its shape overflows 64 bits");
  }
  return end;
}

std::string write_safetensors_header(const std::vector<SafetensorsEntry>& entries, int64_t data_size,
                                     const Metadata& metadata, const std::string& where) {
  std::string json = "{";
  const auto separate = [&] { json += json.size() > 1 ? "," : ""; };
  if (!metadata.empty()) append_metadata(metadata, where, json);
  for (const SafetensorsEntry& entry : entries) {
    separate();
    append_entry(entry, json);
  }
  json += '}';
  while (json.size() % 8 != 0) json += ' ';
  require_header_length(json.size(), where);
  parse_safetensors_header(json, data_size, where);  // throws unless the header can be read again
  return json;
}

}  // namespace tessera::io

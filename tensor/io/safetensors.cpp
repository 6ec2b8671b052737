#include "tensor/io/safetensors.h"

#include <algorithm>
#include <bit>

namespace tessera::io {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr int64_t length_bytes = 8;

/// The header's text, after checks that the file contains it.
std::string read_header_text(const InputFile& file) {
  const std::string& path = file.path();
  require<CheckpointError>(file.size() >= length_bytes, path,
                           ": not a safetensors file: expected at least 8 bytes, got ", file.size());
  uint64_t length = 0;
  file.read(0, &length, length_bytes);
  require_header_length(length, path);
  const int64_t n = static_cast<int64_t>(length);
  require<CheckpointError>(n <= file.size() - length_bytes, path, ": truncated: the header has ", n,
                           " bytes, the file ", file.size() - length_bytes, " after its length");
  std::string header(length, '\0');
  file.read(length_bytes, header.data(), n);
  return header;
}

void require_tensor_dtype(const SafetensorsEntry& entry, const std::string& path) {
  require<CheckpointError>(entry.unsupported_dtype.empty(), path, ": tensor '", entry.name, "': its dtype ",
                           entry.unsupported_dtype, " is none of Tensor's: it cannot be read");
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path) : file_(std::move(path)) {
  const std::string json = read_header_text(file_);
  const int64_t data_begin = length_bytes + std::ssize(json);
  SafetensorsHeader header = parse_safetensors_header(json, file_.size() - data_begin, file_.path());
  metadata_ = std::move(header.metadata);
  entries_ = std::move(header.entries);
  for (size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].offset += data_begin;
    by_name_[entries_[i].name] = i;
  }
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
  require_tensor_dtype(found, path());
  Tensor tensor = Tensor::empty(found.shape, found.dtype);
  read(found, 0, found.shape.numel(), tensor.raw_data());
  return tensor;
}

void SafetensorsFile::read(const SafetensorsEntry& entry, int64_t begin, int64_t end, void* out) const {
  require<IndexError>(0 <= begin && begin <= end && end <= entry.shape.numel(), path(), ": tensor '",
                      entry.name, "' has elements [0, ", entry.shape.numel(), "), requested [", begin, ", ",
                      end, ")");
  require_tensor_dtype(entry, path());
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
  for (const SafetensorsEntry& entry : entries_) require_tensor_dtype(entry, file_.path());
  const int64_t data_size = place_tensors(entries_, file_.path());
  const std::string header = write_safetensors_header(entries_, data_size, metadata, file_.path());
  const uint64_t length = header.size();
  file_.append(&length, length_bytes);
  file_.append(header.data(), static_cast<int64_t>(length));
  for (SafetensorsEntry& entry : entries_) entry.offset += file_.size();
  size_ = file_.size() + data_size;
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return size_of(a.dtype) > size_of(b.dtype);
                   });
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

}  // namespace tessera::io

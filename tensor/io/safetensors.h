#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tensor/io/file.h"
#include "tensor/io/safetensors_header.h"
#include "tensor/named_tensor.h"
#include "tensor/tensor.h"

/// The safetensors format (https://github.com/huggingface/safetensors): eight bytes of header length, a JSON
/// header with each tensor's dtype, shape and byte range, then the bytes, row-major and little-endian,
/// without holes.
namespace tessera::io {

/// A safetensors file opened for reading. The constructor throws CheckpointError, naming the file and the
/// reason, for anything that is not exactly such a file: a header that is cut, too long, not strict JSON or
/// with a key twice; an unknown dtype; a shape and byte range that do not match; ranges that overlap, leave
/// holes or end elsewhere than the file does. A dtype that the format has and Tensor lacks is an error
/// only when that tensor is read.
class SafetensorsFile {
 public:
  /// Opens the file and reads its header, not the data. Throws as above.
  explicit SafetensorsFile(std::string path);

  /// The path as given.
  const std::string& path() const { return file_.path(); }
  /// The open file, for reading bytes without interpreting them.
  const InputFile& file() const { return file_; }
  /// In the order of the header.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// The header's `__metadata__`; empty where there is none.
  const Metadata& metadata() const { return metadata_; }

  /// Null when there is none of that name.
  const SafetensorsEntry* find(const std::string& name) const;
  /// Throws CheckpointError naming the file and the tensor when there is none.
  const SafetensorsEntry& entry(const std::string& name) const;

  /// A new tensor on the CPU with the file's values. Throws as the other `read`.
  Tensor read(const std::string& name) const;
  /// Reads elements [begin, end) in row-major order into `out`. Throws IndexError for elements that the
  /// tensor does not have, CheckpointError when a bool is neither 0 nor 1, and, naming the dtype, when Tensor
  /// does not have it.
  void read(const SafetensorsEntry& entry, int64_t begin, int64_t end, void* out) const;

 private:
  InputFile file_;
  Metadata metadata_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, size_t> by_name_;
};

/// Writes a safetensors file chunk by chunk: only its header and one chunk are in memory at a time. The file
/// appears under its name when it is complete (see OutputFile).
class SafetensorsWriter {
 public:
  /// Writes the header, its keys in the order given; the offsets in `tensors` are ignored and chosen here.
  /// Throws CheckpointError naming the file, as every member does; also for anything that SafetensorsFile
  /// cannot open: a name given twice or not UTF-8, a header beyond the format's limit.
  SafetensorsWriter(std::string path, std::vector<SafetensorsEntry> tensors, const Metadata& metadata = {});

  /// The tensors in the order in which their bytes must be appended: wide types first, so that each is
  /// aligned to its own size; else as given.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// Appends the next bytes of the data.
  void append(const void* data, int64_t size) { file_.append(data, size); }
  /// Appends all values of the next tensor. Throws CheckpointError when its dtype or shape is not the one
  /// declared.
  void append(const Tensor& tensor);
  /// Syncs and renames; returns the XXH3 of the file. Throws CheckpointError when bytes are missing or too
  /// many.
  uint64_t commit();
  /// Bytes of the whole file.
  int64_t size() const { return size_; }

 private:
  OutputFile file_;
  std::vector<SafetensorsEntry> entries_;
  size_t next_ = 0;
  int64_t size_ = 0;
};

/// Writes tensors into one file, their names in the order given; returns its XXH3.
uint64_t write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                           const Metadata& metadata = {});

}  // namespace tessera::io

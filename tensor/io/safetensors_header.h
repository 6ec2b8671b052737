#pragma once  // internal

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.h"
#include "tensor/types/dtype.h"

namespace tessera::io {

/// Free text by key, in a file's `__metadata__`.
using Metadata = std::map<std::string, std::string>;

/// One tensor of a safetensors file.
struct SafetensorsEntry {
  std::string name;   ///< in the header; unique in the file
  DType dtype = f32;  ///< of the elements; meaningless where `unsupported_dtype` is set
  Shape shape;        ///< its values lie in row-major order
  /// Its first byte, counted from the file's start (in a SafetensorsHeader and after `place_tensors`, from
  /// the first byte of data).
  int64_t offset = 0;
  /// The format's name of a dtype that Tensor does not have ("I8", "F8_E4M3"), else empty. The values of such
  /// a tensor cannot be read, and `dtype` has no meaning.
  std::string unsupported_dtype = {};

  /// Bytes of its values in the file, also for an unsupported dtype.
  int64_t nbytes() const;
  /// "F32", "F8_E4M3": the format's name of its dtype.
  std::string dtype_name() const;
};

/// The JSON text that a safetensors file begins with.
struct SafetensorsHeader {
  Metadata metadata;                      ///< empty where the text has none
  std::vector<SafetensorsEntry> entries;  ///< in the order of the text; offsets from the first byte of data
};

/// Reads a header. Throws CheckpointError naming `where`, and the tensor, for any text that is not exactly a
/// header: not strict JSON, a key twice, a dtype that the format does not have, a shape and byte range that
/// do not match, ranges that overlap, leave holes, or do not end after `data_size` bytes.
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_size,
                                           const std::string& where);

/// Chooses the offset of each tensor: wide types first, so that each is aligned to its own size, else in the
/// order given. Returns the number of bytes. Throws CheckpointError naming `where` and the tensor for a name
/// that is not UTF-8 or given twice, and for sizes that 64 bits do not hold.
int64_t place_tensors(std::vector<SafetensorsEntry>& entries, const std::string& where);

/// Writes a header, with its keys in the order of the entries and filled with spaces to a multiple of eight
/// bytes. Throws CheckpointError naming `where` unless `parse_safetensors_header` accepts it: also for a text
/// longer than the format allows.
std::string write_safetensors_header(const std::vector<SafetensorsEntry>& entries, int64_t data_size,
                                     const Metadata& metadata, const std::string& where);

/// Throws CheckpointError when a header of so many bytes is longer than the format allows.
void require_header_length(uint64_t bytes, const std::string& where);

/// "F32", "BOOL": the format's name of a dtype.
std::string safetensors_dtype_name(DType dtype);

}  // namespace tessera::io

#pragma once

#include <string>
#include <vector>

#include "dist/checkpoint/checkpoint_reader.h"

namespace tessera::dist {

/// Writes the tensors of `group`, whole and under their own names, into one safetensors file with the
/// metadata {"format": "pt"}, which PyTorch's safetensors loads. The checkpoint's hashes are verified first;
/// 8 MiB of the values are in memory at a time, whatever the sizes of model and tensors. A file at `path` is
/// replaced. Returns the file's XXH3. Throws CheckpointError, leaving what was at `path` untouched; also for
/// a path in the checkpoint's own folder.
uint64_t consolidate(const CheckpointReader& reader, const std::string& path,
                     const std::string& group = "model");

/// Whether the file at `path` is what `consolidate` writes, of this checkpoint or another of its model: a
/// safetensors file with exactly these names, shapes and dtypes.
bool is_consolidated(const CheckpointReader& reader, const std::string& path,
                     const std::string& group = "model");

/// One tensor of a checkpoint, for a table.
struct TensorSummary {
  TensorId id;
  Shape shape;
  DType dtype = f32;
  int64_t bytes = 0;
  std::vector<std::string> files;  ///< that hold a part of it
};

/// One file of a checkpoint, for a table.
struct FileSummary {
  std::string name;
  int64_t bytes = 0;
  uint64_t xxh3 = 0;
  size_t chunks = 0;
};

/// What a checkpoint says of itself, without its numbers being read.
struct CheckpointSummary {
  std::string folder;
  TrainingState state;
  std::vector<TensorSummary> tensors;  ///< by group and name
  std::vector<FileSummary> files;
  int64_t elements = 0;  ///< of the group "model"
  int64_t bytes = 0;     ///< of all files
};
CheckpointSummary inspect(const CheckpointReader& reader);

/// The outcome of reading one file whole.
struct FileVerdict {
  std::string name;
  std::string problem;  ///< "" where there is none
};
/// Reads every file that meta.json names, and says what is wrong with each: missing, cut, not safetensors,
/// not the tensors or the hash that meta.json has, or the first NaN. The last verdict is of meta.json itself:
/// that the tensors in those files are whole. Throws CheckpointError when meta.json cannot be read, without
/// which nothing is known of the others.
std::vector<FileVerdict> verify_files(const std::string& folder);

}  // namespace tessera::dist

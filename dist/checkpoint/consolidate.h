#pragma once

#include <string>
#include <vector>

#include "dist/checkpoint/checkpoint_reader.h"

namespace tessera::dist {

/// Writes the full tensors of `group` under their own names into one safetensors file with the metadata
/// {"format": "pt"}, which PyTorch's safetensors loads. The checkpoint's hashes are verified first; at most
/// 8 MiB of values are in memory at once, for models and tensors of any size. A file at `path` is replaced.
/// Returns the file's XXH3. Throws CheckpointError, also for a path in the checkpoint's own folder, and then
/// leaves a file at `path` unchanged.
uint64_t consolidate(const CheckpointReader& reader, const std::string& path,
                     const std::string& group = "model");

/// Whether the file at `path` is one that `consolidate` writes for this checkpoint or another of its model: a
/// safetensors file with exactly the group's names, shapes and dtypes.
bool is_consolidated(const CheckpointReader& reader, const std::string& path,
                     const std::string& group = "model");

/// One tensor of a checkpoint, for a table.
struct TensorSummary {
  TensorId id;                     ///< group and name
  Shape shape;                     ///< of the full tensor
  DType dtype = f32;               ///< of the stored values
  int64_t bytes = 0;               ///< of the full tensor
  std::vector<std::string> files;  ///< with chunks of this tensor
};

/// One file of a checkpoint, for a table.
struct FileSummary {
  std::string name;   ///< in the checkpoint's folder
  int64_t bytes = 0;  ///< of the whole file
  uint64_t xxh3 = 0;  ///< of the whole file, as in meta.json
  size_t chunks = 0;  ///< number of them in the file
};

/// The content of a checkpoint, from meta.json and the headers of its files.
struct CheckpointSummary {
  std::string folder;                  ///< as given to the reader
  TrainingState state;                 ///< of the run
  std::vector<TensorSummary> tensors;  ///< by group and name
  std::vector<FileSummary> files;      ///< in the order of meta.json, which is not among them
  int64_t elements = 0;                ///< of the group "model"
  int64_t bytes = 0;                   ///< of all files
};
/// Summarizes an open checkpoint. Reads no values.
CheckpointSummary inspect(const CheckpointReader& reader);

/// The outcome of verifying one file.
struct FileVerdict {
  std::string name;     ///< in the checkpoint's folder
  std::string problem;  ///< "" for a good file
};
/// Reads every file that meta.json names. Problems of a file: missing, truncated, not safetensors, other
/// tensors or another hash than in meta.json, or the first NaN. The last verdict is that of meta.json:
/// whether the chunks cover each tensor. Throws CheckpointError when meta.json, which lists the other files,
/// cannot be read.
std::vector<FileVerdict> verify_files(const std::string& folder);

}  // namespace tessera::dist

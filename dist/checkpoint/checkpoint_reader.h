#pragma once

#include <span>
#include <string>
#include <vector>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_meta.h"
#include "dist/checkpoint/coverage.h"
#include "tensor/io/safetensors.h"

namespace tessera::dist {

/// Throws CheckpointError, naming the file and the tensor, unless an opened file has the size and the tensors
/// of its record in meta.json.
void verify_header(const FileRecord& record, const io::SafetensorsFile& file);
/// Reads all of the file. Throws CheckpointError, naming the file and the tensor, when its XXH3 differs from
/// that in meta.json, or a value is NaN.
void verify_content(const FileRecord& record, const io::SafetensorsFile& file);

/// A checkpoint opened for reading, written by any number of ranks. The constructor reads meta.json and the
/// header of every file. It throws CheckpointError naming the file and the reason unless sizes, names, dtypes
/// and shapes agree and the chunks cover each tensor. The values are checked by `verify`.
class CheckpointReader {
 public:
  /// `folder` holds meta.json; see `find_checkpoint` for other paths.
  explicit CheckpointReader(std::string folder);
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  /// The path given to the constructor.
  const std::string& folder() const { return folder_; }
  /// The state of the run when it was saved.
  const TrainingState& state() const { return meta_.state; }
  /// In the order of meta.json; `verify_file` and `file_has` take an index into it.
  const std::vector<FileRecord>& files() const { return meta_.files; }
  /// XXH3 of meta.json, which contains the hashes of all files: readers with equal hashes read the same
  /// checkpoint.
  uint64_t hash() const { return hash_; }
  /// All tensors, sorted by group and name.
  const StoredTensors& tensors() const { return tensors_; }
  /// Throws CheckpointError naming the checkpoint and the tensor when the tensor is missing.
  const StoredTensor& tensor(const TensorId& id) const;

  /// `verify_content` of one file.
  void verify_file(size_t file) const;
  /// Whether a file holds chunks of this group.
  bool file_has(size_t file, const std::string& group) const;
  /// `verify_file` for the files that hold chunks of `group`; for all files when `group` is empty.
  void verify(const std::string& group = "") const;

  /// Fills `out`, contiguous on the CPU, with the elements of `range` in row-major order, from the chunks
  /// that hold them. Throws CheckpointError when the dtype or the number of elements differs.
  void read(const TensorId& id, const TensorRange& range, const Tensor& out) const;

 private:
  std::string folder_;
  uint64_t hash_ = 0;
  CheckpointMeta meta_;
  std::vector<io::SafetensorsFile> opened_;
  StoredTensors tensors_;
};

/// Throws CheckpointError, naming what is missing, unexpected or different, unless the checkpoint's group has
/// exactly the tensors of the shards, with these shapes and dtypes.
void require_same_tensors(const CheckpointReader& reader, const GroupShard& group);
/// `fill_shards`, then `round_shards`. Verifies nothing.
void read_shards(const CheckpointReader& reader, const GroupShard& group);
/// Reads the shards' tensors, of any strides and on any device. It may take long, and does no arithmetic.
void fill_shards(const CheckpointReader& reader, const GroupShard& group);
/// Rounds masters to the parameters in bf16 or f16.
void round_shards(const GroupShard& group);

/// Fills the tensors of the groups (in place, any strides) from a checkpoint. Before the first value is
/// written, verifies that each group has exactly these names, shapes and dtypes, that every hash is right,
/// and that there is no NaN. Throws CheckpointError naming what is missing, unexpected or different.
void load_checkpoint(const CheckpointReader& reader, std::span<const TensorGroup> groups);

}  // namespace tessera::dist

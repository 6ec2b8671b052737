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
/// that meta.json says.
void require_recorded(const FileRecord& record, const io::SafetensorsFile& file);
/// Reads such a file whole. Throws CheckpointError when its XXH3 is not meta.json's, or a value is NaN: with
/// the file's and the tensor's name.
void verify_content(const FileRecord& record, const io::SafetensorsFile& file);

/// A checkpoint opened for reading, whatever world wrote it. The constructor reads meta.json and the header
/// of every file, and throws CheckpointError naming the file and the reason unless sizes, names, dtypes and
/// shapes agree and the chunks make whole tensors. The numbers themselves are checked by `verify`.
class CheckpointReader {
 public:
  /// `folder` is a checkpoint's own; see `find_checkpoint` for other paths.
  explicit CheckpointReader(std::string folder);
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  const std::string& folder() const { return folder_; }
  const TrainingState& state() const { return meta_.state; }
  const std::vector<FileRecord>& files() const { return meta_.files; }
  /// XXH3 of meta.json, which has those of all files: two readers with the same one read the same
  /// checkpoint.
  uint64_t hash() const { return hash_; }
  const StoredTensors& tensors() const { return tensors_; }
  /// Throws CheckpointError naming the checkpoint and the tensor when there is none.
  const StoredTensor& tensor(const TensorId& id) const;

  /// `verify_content` of one file.
  void verify_file(size_t file) const;
  /// Whether a file holds a tensor of this group.
  bool file_has(size_t file, const std::string& group) const;
  /// `verify_file` for those that hold tensors of `group`, or for all when it is empty.
  void verify(const std::string& group = "") const;

  /// Fills `out`, contiguous on the CPU, with the elements of a piece in row-major order, from whichever
  /// chunks hold them. Throws CheckpointError when the dtype or the number of elements differs.
  void read(const TensorId& id, const Piece& piece, const Tensor& out) const;

 private:
  std::string folder_;
  uint64_t hash_ = 0;
  CheckpointMeta meta_;
  std::vector<io::SafetensorsFile> opened_;
  StoredTensors tensors_;
};

/// Throws CheckpointError, naming what is missing, unexpected or different, unless the checkpoint's group has
/// exactly the tensors that the pieces are of, with these shapes and dtypes.
void require_same_tensors(const CheckpointReader& reader, const PieceGroup& group);
/// Fills the pieces' tensors, of any strides and on any device, and where they are masters what is computed
/// with. Verifies nothing.
void read_pieces(const CheckpointReader& reader, const PieceGroup& group);
/// The two halves of it: reading, which may take long and computes nothing, and rounding.
void fill_pieces(const CheckpointReader& reader, const PieceGroup& group);
void round_pieces(const PieceGroup& group);

/// Fills the tensors of the groups given (in place, any strides) from a checkpoint. Before the first number
/// is written, everything is verified: that each group has exactly these names, shapes and dtypes, every
/// hash, and that there is no NaN. Throws CheckpointError naming what is missing, unexpected or different.
void load_checkpoint(const CheckpointReader& reader, std::span<const TensorGroup> groups);

}  // namespace tessera::dist

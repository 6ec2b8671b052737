#pragma once  // internal

#include <map>
#include <vector>

#include "dist/checkpoint/checkpoint_meta.h"

namespace tessera::dist {

/// A chunk and the file that holds it, by index.
struct StoredChunk {
  size_t file = 0;               ///< index of the file in the `files` of `assemble_tensors`
  const Chunk* chunk = nullptr;  ///< in that file's record
};

/// A tensor of a checkpoint, with the chunks that cover it.
struct StoredTensor {
  DType dtype = f32;                ///< the same in all chunks
  Shape shape;                      ///< of the full tensor
  std::vector<StoredChunk> chunks;  ///< in the order of the files; each element is in exactly one

  /// Bytes of the full tensor.
  int64_t nbytes() const { return shape.numel() * size_of(dtype); }
};
/// The tensors of a checkpoint, sorted by group and name.
using StoredTensors = std::map<TensorId, StoredTensor>;

/// Groups the chunks of all files by tensor; the result points into `files`. Throws CheckpointError naming
/// `where`, the tensor and the files when chunks of a tensor have different shapes or dtypes, overlap, or
/// leave out elements.
StoredTensors assemble_tensors(const std::vector<FileRecord>& files, const std::string& where);

}  // namespace tessera::dist

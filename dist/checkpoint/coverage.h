#pragma once

#include <map>
#include <vector>

#include "dist/checkpoint/checkpoint_meta.h"

namespace tessera::dist {

/// A chunk and the file that holds it, by index.
struct StoredChunk {
  size_t file = 0;
  const Chunk* chunk = nullptr;
};

/// A tensor of a checkpoint, with the chunks that cover it.
struct StoredTensor {
  DType dtype = f32;
  Shape shape;
  std::vector<StoredChunk> chunks;

  int64_t nbytes() const { return shape.numel() * size_of(dtype); }
};
using StoredTensors = std::map<TensorId, StoredTensor>;

/// Groups the chunks of all files by tensor; the result points into `files`. Throws CheckpointError naming
/// `where`, the tensor and the files when chunks of a tensor have different shapes or dtypes, overlap, or
/// leave out elements.
StoredTensors assemble_tensors(const std::vector<FileRecord>& files, const std::string& where);

}  // namespace tessera::dist

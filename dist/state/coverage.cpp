#include "dist/state/coverage.h"

#include <algorithm>

namespace tessera::dist {
namespace {

struct OwnedRun {
  int64_t position;
  int64_t length;
  size_t file;
};

/// Every element of the tensor must be in exactly one chunk.
void require_exact_cover(const StoredTensor& tensor, const std::vector<FileRecord>& files,
                         const std::string& where) {
  std::vector<OwnedRun> runs;
  for (const StoredChunk& stored : tensor.chunks)
    for_each_run(stored.chunk->piece, tensor.shape, [&](const Run& run) {
      runs.push_back({run.position, run.length, stored.file});
    });
  std::sort(runs.begin(), runs.end(),
            [](const OwnedRun& a, const OwnedRun& b) { return a.position < b.position; });
  int64_t covered = 0;
  size_t last_file = 0;
  for (const OwnedRun& run : runs) {
    require<CheckpointError>(run.position >= covered, where, ": element ", run.position, " of ", tensor.shape,
                             " is in both ", files[last_file].name, " and ", files[run.file].name);
    if (run.position > covered) break;
    covered += run.length;
    last_file = run.file;
  }
  require<CheckpointError>(covered == tensor.shape.numel(), where, ": expected all ", tensor.shape.numel(),
                           " elements of ", tensor.shape, ", element ", covered, " is in no file");
}

}  // namespace

StoredTensors assemble_tensors(const std::vector<FileRecord>& files, const std::string& where) {
  StoredTensors tensors;
  for (size_t file = 0; file < files.size(); ++file) {
    for (const Chunk& chunk : files[file].chunks) {
      StoredTensor& tensor = tensors[chunk.tensor];
      if (tensor.chunks.empty()) {
        tensor.dtype = chunk.dtype;
        tensor.shape = chunk.shape;
      }
      require<CheckpointError>(tensor.dtype == chunk.dtype && tensor.shape == chunk.shape, where,
                               ": tensor '", chunk.tensor, "': ", tensor.shape, " ", tensor.dtype,
                               " in one file, ", chunk.shape, " ", chunk.dtype, " in ", files[file].name);
      tensor.chunks.push_back({file, &chunk});
    }
  }
  for (const auto& [id, tensor] : tensors)
    require_exact_cover(tensor, files, text(where, ": tensor '", id, "'"));
  return tensors;
}

}  // namespace tessera::dist

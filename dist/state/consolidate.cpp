#include "dist/state/consolidate.h"

#include <algorithm>

namespace tessera::dist {
namespace {

/// What of the model is in memory at a time: large enough that finding the chunks of a block costs nothing
/// beside reading it.
constexpr int64_t block_bytes = int64_t{8} << 20;

}  // namespace

uint64_t consolidate(const CheckpointReader& reader, const std::string& path, const std::string& group) {
  std::vector<SafetensorsEntry> layout;
  for (const auto& [id, tensor] : reader.tensors())
    if (id.group == group) layout.push_back({id.name, tensor.dtype, tensor.shape});
  require<CheckpointError>(!layout.empty(), reader.folder(), ": has no tensors in group '", group, "'");
  reader.verify(group);
  SafetensorsWriter writer(path, std::move(layout), {{"format", "pt"}});
  const Tensor buffer = Tensor::empty({block_bytes}, u8);
  for (const SafetensorsEntry& entry : writer.entries()) {
    const int64_t n = entry.shape.numel(), size = size_of(entry.dtype);
    for (int64_t begin = 0; begin < n; begin += block_bytes / size) {
      const int64_t end = std::min(n, begin + block_bytes / size);
      const Tensor numbers = Tensor::over(buffer.storage(), entry.dtype, {end - begin}, {1});
      reader.read({group, entry.name}, flat_range(entry.shape, begin, end), numbers);
      writer.append(numbers.raw_data(), numbers.nbytes());
    }
  }
  return writer.commit();
}

CheckpointSummary inspect(const CheckpointReader& reader) {
  CheckpointSummary summary;
  summary.folder = reader.folder();
  summary.state = reader.state();
  for (const auto& [id, tensor] : reader.tensors()) {
    TensorSummary row{id, tensor.shape, tensor.dtype, tensor.nbytes(), {}};
    for (const StoredChunk& stored : tensor.chunks) {
      const std::string& file = reader.files()[stored.file].name;
      if (std::find(row.files.begin(), row.files.end(), file) == row.files.end()) row.files.push_back(file);
    }
    if (id.group == "model") summary.elements += tensor.shape.numel();
    summary.tensors.push_back(std::move(row));
  }
  for (const FileRecord& file : reader.files()) {
    summary.files.push_back({file.name, file.bytes, file.xxh3, file.chunks.size()});
    summary.bytes += file.bytes;
  }
  return summary;
}

std::vector<FileVerdict> verify_files(const CheckpointReader& reader) {
  std::vector<FileVerdict> verdicts;
  for (size_t i = 0; i < reader.files().size(); ++i) {
    FileVerdict verdict{reader.files()[i].name, ""};
    try {
      reader.verify_file(i);
    } catch (const CheckpointError& error) {
      verdict.problem = error.what();
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace tessera::dist

#include "dist/state/consolidate.h"

#include <algorithm>

namespace tessera::dist {

uint64_t consolidate(const CheckpointReader& reader, const std::string& path, const std::string& group) {
  std::vector<SafetensorsEntry> layout;
  for (const auto& [id, tensor] : reader.tensors())
    if (id.group == group) layout.push_back({id.name, tensor.dtype, tensor.shape});
  require<CheckpointError>(!layout.empty(), reader.folder(), ": has no tensors in group '", group, "'");
  reader.verify(group);
  SafetensorsWriter writer(path, std::move(layout), {{"format", "pt"}});
  for (const SafetensorsEntry& entry : writer.entries()) {
    const Tensor numbers = Tensor::empty(entry.shape, entry.dtype);
    reader.read({group, entry.name}, whole(entry.shape), numbers);
    writer.append(numbers);
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

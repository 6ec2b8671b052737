#include "dist/checkpoint/consolidate.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace tessera::dist {
namespace {

/// Bytes of values that are in memory at once. Large enough that reading a block takes far longer than
/// finding its chunks.
constexpr int64_t block_bytes = int64_t{8} << 20;

std::vector<io::SafetensorsEntry> layout_of(const CheckpointReader& reader, const std::string& group) {
  std::vector<io::SafetensorsEntry> layout;
  for (const auto& [id, tensor] : reader.tensors())
    if (id.group == group) layout.push_back({id.name, tensor.dtype, tensor.shape});
  return layout;
}

/// The first problem of a file; "" for a good one.
std::string problem_of(const FileRecord& record, const std::string& folder) {
  try {
    const io::SafetensorsFile file(folder + "/" + record.name);
    verify_header(record, file);
    verify_content(record, file);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

uint64_t consolidate(const CheckpointReader& reader, const std::string& path, const std::string& group) {
  std::vector<io::SafetensorsEntry> layout = layout_of(reader, group);
  require<CheckpointError>(!layout.empty(), reader.folder(), ": has no tensors in group '", group, "'");
  std::error_code ignored;
  require<CheckpointError>(!std::filesystem::equivalent(io::parent_directory(path), reader.folder(), ignored),
                           path, ": is in the checkpoint's own folder: expected a file in another one");
  reader.verify(group);
  io::SafetensorsWriter writer(path, std::move(layout), {{"format", "pt"}});
  const Tensor buffer = Tensor::empty({block_bytes}, u8);
  for (const io::SafetensorsEntry& entry : writer.entries()) {
    const int64_t n = entry.shape.numel(), size = size_of(entry.dtype);
    for (int64_t begin = 0; begin < n; begin += block_bytes / size) {
      const int64_t end = std::min(n, begin + block_bytes / size);
      const Tensor values = Tensor::over(buffer.storage(), entry.dtype, {end - begin}, {1});
      reader.read({group, entry.name}, flat_range(entry.shape, begin, end), values);
      writer.append(values.raw_data(), values.nbytes());
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

bool is_consolidated(const CheckpointReader& reader, const std::string& path, const std::string& group) {
  using Row = std::tuple<std::string, std::string, std::vector<int64_t>>;
  const auto rows = [](const std::vector<io::SafetensorsEntry>& entries) {
    std::set<Row> set;
    for (const io::SafetensorsEntry& entry : entries)
      set.emplace(entry.name, entry.dtype_name(), std::vector(entry.shape.begin(), entry.shape.end()));
    return set;
  };
  try {
    return rows(io::SafetensorsFile(path).entries()) == rows(layout_of(reader, group));
  } catch (const CheckpointError&) {
    return false;
  }
}

std::vector<FileVerdict> verify_files(const std::string& folder) {
  const std::string meta_path = folder + "/" + meta_file_name;
  const CheckpointMeta meta =
      parse_checkpoint_meta(io::read_text_file(meta_path, meta_size_limit), meta_path);
  std::vector<FileVerdict> verdicts;
  for (const FileRecord& record : meta.files) verdicts.push_back({record.name, problem_of(record, folder)});
  FileVerdict coverage{meta_file_name, ""};
  try {
    assemble_tensors(meta.files, meta_path);
  } catch (const CheckpointError& error) {
    coverage.problem = error.what();
  }
  verdicts.push_back(std::move(coverage));
  return verdicts;
}

}  // namespace tessera::dist

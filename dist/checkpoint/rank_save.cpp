#include "dist/checkpoint/rank_save.h"

#include <algorithm>
#include <filesystem>

#include "dist/checkpoint/rank_pieces.h"

namespace tessera::dist {

std::vector<PieceGroup> groups_to_write(std::span<const PieceGroup> groups) {
  std::vector<PieceGroup> mine;
  for (const PieceGroup& group : groups) mine.push_back({group.name, pieces_to_write(group)});
  return mine;
}

std::vector<FileRecord> write_files(const std::string& folder, int rank, int size,
                                    std::span<const PieceGroup> groups) {
  std::error_code ignored;
  require<CheckpointError>(std::filesystem::is_directory(folder, ignored), folder,
                           ": rank 0 made this folder, rank ", rank,
                           " does not see it: checkpoints go to a file system that all ranks share");
  std::vector<FileRecord> records;
  for (const PieceGroup& group : groups) {
    if (group.pieces.empty()) continue;
    const std::string name = size == 1 ? group.name : text(group.name, "-rank-", rank);
    records.push_back(write_pieces(folder, name + ".safetensors", group.name, group.pieces));
  }
  return records;
}

std::string to_text(std::span<const FileRecord> records) {
  std::string lines;
  for (const FileRecord& record : records) lines += to_json(record) + "\n";
  return lines;
}

std::vector<FileRecord> parse_file_records(const std::string& text, const std::string& where) {
  std::vector<FileRecord> records;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    records.push_back(parse_file_record(text.substr(begin, end - begin), where));
    begin = end + 1;
  }
  return records;
}

std::string publish(CheckpointWriter& writer, std::span<const std::string> texts, const TrainingState& state,
                    const SaveOptions& options) {
  for (const std::string& text : texts)
    for (FileRecord& record : parse_file_records(text, writer.folder())) writer.add(std::move(record));
  return writer.publish(state, options);
}

}  // namespace tessera::dist

#include "dist/checkpoint/rank_save.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "dist/checkpoint/rank_agreement.h"
#include "dist/checkpoint/rank_local.h"
#include "dist/checkpoint/rank_shards.h"

namespace tessera::dist {
namespace {

/// The inverse of `to_text`. Throws CheckpointError naming `where` for a line that is no record.
std::vector<FileRecord> parse_file_records(const std::string& text, const std::string& where) {
  std::vector<FileRecord> records;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    records.push_back(parse_file_record(text.substr(begin, end - begin), where));
    begin = end + 1;
  }
  return records;
}

}  // namespace

RankSave::RankSave(Communicator& world, const std::string& root, int64_t step,
                   std::span<const GroupShard> groups)
    : rank_(world.rank()), size_(world.size()) {
  run_long_together(world, [&] {
    if (rank_ == 0) writer_ = std::make_unique<CheckpointWriter>(root, step);
  });
  folder_ = broadcast_text(world, writer_ ? writer_->folder() : "");
  groups_ = name_rank_local(world, groups);
}

std::vector<GroupShard> RankSave::take_shards() {
  return groups_to_write(std::exchange(groups_, {}));
}

std::string RankSave::write(std::span<const GroupShard> shards) const {
  return to_text(write_files(folder_, rank_, size_, shards));
}

void RankSave::publish(std::span<const std::string> records, const TrainingState& state,
                       const SaveOptions& options) {
  if (writer_) published_ = dist::publish(*writer_, records, state, options);
}

std::string RankSave::published_folder(Communicator& world) const {
  return broadcast_text(world, published_);
}

std::vector<GroupShard> groups_to_write(std::span<const GroupShard> groups) {
  std::vector<GroupShard> result;
  for (const GroupShard& group : groups)
    result.push_back({group.name, shards_to_write(group), group.elsewhere});
  return result;
}

std::vector<FileRecord> write_files(const std::string& folder, int rank, int size,
                                    std::span<const GroupShard> groups) {
  std::error_code ignored;
  require<CheckpointError>(std::filesystem::is_directory(folder, ignored), folder,
                           ": rank 0 created this folder, rank ", rank,
                           " does not find it: expected a file system that all ranks share");
  std::vector<FileRecord> records;
  for (const GroupShard& group : groups) {
    if (group.shards.empty()) continue;
    const std::string name = size == 1 ? group.name : text(group.name, "-rank-", rank);
    records.push_back(write_shards(folder, name + ".safetensors", group.name, group.shards));
  }
  return records;
}

std::string to_text(std::span<const FileRecord> records) {
  std::string lines;
  for (const FileRecord& record : records) lines += to_json(record) + "\n";
  return lines;
}

std::string publish(CheckpointWriter& writer, std::span<const std::string> texts, const TrainingState& state,
                    const SaveOptions& options) {
  for (const std::string& text : texts)
    for (FileRecord& record : parse_file_records(text, writer.folder())) writer.add(std::move(record));
  return writer.publish(state, options);
}

}  // namespace tessera::dist

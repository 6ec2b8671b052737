#include "dist/checkpoint/distributed_checkpoint.h"

#include <algorithm>

#include "dist/checkpoint/rank_agreement.h"
#include "dist/checkpoint/rank_local.h"
#include "dist/checkpoint/rank_save.h"

namespace tessera::dist {
namespace {

/// The files that this rank verifies. They are assigned from the largest to the smallest, each to the rank
/// with the fewest bytes so far.
std::vector<size_t> files_to_verify(const Communicator& world, const CheckpointReader& reader,
                                    std::span<const GroupShard> groups) {
  std::vector<size_t> files;
  for (size_t i = 0; i < reader.files().size(); ++i)
    if (std::any_of(groups.begin(), groups.end(),
                    [&](const GroupShard& group) { return reader.file_has(i, group.name); }))
      files.push_back(i);
  std::stable_sort(files.begin(), files.end(),
                   [&](size_t a, size_t b) { return reader.files()[a].bytes > reader.files()[b].bytes; });
  std::vector<int64_t> bytes(static_cast<size_t>(world.size()), 0);
  std::vector<size_t> assigned;
  for (const size_t file : files) {
    const auto least = std::min_element(bytes.begin(), bytes.end());
    *least += reader.files()[file].bytes;
    if (least - bytes.begin() == world.rank()) assigned.push_back(file);
  }
  return assigned;
}

/// On several machines one path may refer to different files.
void require_same_checkpoint(Communicator& world, const CheckpointReader& reader) {
  const std::string expected = broadcast_text(world, hash_text(reader.hash()));
  run_on_all(world, [&] {
    require<CheckpointError>(hash_text(reader.hash()) == expected, reader.folder(),
                             ": is not the checkpoint that rank 0 finds there");
  });
}

}  // namespace

std::string save_checkpoint(Communicator& world, const std::string& root, const TrainingState& state,
                            std::span<const GroupShard> groups, const SaveOptions& options) {
  RankSave save(world, root, state.step, groups);
  std::string records;
  run_long_together(world, [&] { records = save.write(save.take_shards()); });
  const std::vector<std::string> all_records = gather_texts(world, records);
  run_long_together(world, [&] { save.publish(all_records, state, options); });
  return save.published_folder(world);
}

std::unique_ptr<CheckpointReader> open_checkpoint(Communicator& world, const std::string& path) {
  std::string folder;
  run_on_all(world, [&] {
    if (world.rank() == 0) folder = find_checkpoint(path);
  });
  folder = broadcast_text(world, folder);
  std::unique_ptr<CheckpointReader> reader;
  run_long_together(world, [&] { reader = std::make_unique<CheckpointReader>(folder); });
  require_same_checkpoint(world, *reader);
  return reader;
}

void load_checkpoint(Communicator& world, const CheckpointReader& reader,
                     std::span<const GroupShard> groups) {
  require_same_checkpoint(world, reader);
  std::vector<GroupShard> found;
  run_on_all(world, [&] {
    found = find_rank_local(reader, groups);
    for (const GroupShard& group : found) require_same_tensors(reader, group);
  });
  run_long_together(world, [&] {
    for (const size_t file : files_to_verify(world, reader, found)) reader.verify_file(file);
  });
  run_long_together(world, [&] {
    for (const GroupShard& group : found) fill_shards(reader, group);
  });
  for (const GroupShard& group : found) round_shards(group);
}

}  // namespace tessera::dist

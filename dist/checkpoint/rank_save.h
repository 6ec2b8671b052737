#pragma once

#include <span>
#include <string>
#include <vector>

#include "dist/checkpoint/checkpoint_writer.h"

/// The steps of a save by several ranks: write, send the file records to rank 0, publish. save_checkpoint
/// sends records through the communicator, BackgroundSave through files.
namespace tessera::dist {

/// Writes this rank's files: one for each group that is not empty. `groups` hold only what this rank writes
/// (see `groups_to_write`).
std::vector<FileRecord> write_files(const std::string& folder, int rank, int size,
                                    std::span<const GroupShard> groups);
/// `shards_to_write` of each group.
std::vector<GroupShard> groups_to_write(std::span<const GroupShard> groups);

/// Records as text, one per line.
std::string to_text(std::span<const FileRecord> records);
/// The inverse. Throws CheckpointError naming `where` for a line that is no record.
std::vector<FileRecord> parse_file_records(const std::string& text, const std::string& where);

/// Adds the records that each rank sent as text, and publishes. Returns the checkpoint's folder.
std::string publish(CheckpointWriter& writer, std::span<const std::string> texts, const TrainingState& state,
                    const SaveOptions& options);

}  // namespace tessera::dist

#pragma once

#include <span>
#include <string>
#include <vector>

#include "dist/checkpoint/checkpoint_writer.h"

/// The steps of a save by several ranks: write, tell what was written, publish. How it is told is the
/// difference between a save that is waited for and one behind the next training steps.
namespace tessera::dist {

/// This rank's files: one for each group that it has something of. `groups` hold what it must write and
/// nothing else (see `pieces_to_write`).
std::vector<FileRecord> write_files(const std::string& folder, int rank, int size,
                                    std::span<const PieceGroup> groups);
/// The same groups with only those pieces, or parts of them, that this rank must write.
std::vector<PieceGroup> groups_to_write(std::span<const PieceGroup> groups);

/// Records as lines of text.
std::string to_text(std::span<const FileRecord> records);
std::vector<FileRecord> parse_file_records(const std::string& text, const std::string& where);

/// Adds the records that each rank sent as text and publishes. Returns the checkpoint's folder.
std::string publish(CheckpointWriter& writer, std::span<const std::string> texts, const TrainingState& state,
                    const SaveOptions& options);

}  // namespace tessera::dist

#pragma once

#include <memory>
#include <span>
#include <string>

#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/checkpoint_writer.h"
#include "dist/comm/interface/communicator.h"

/// Saving and loading by all ranks of a world. Every rank calls the same functions in the same order, with
/// the same arguments except for the shards. An error on one rank is a CheckpointError with its message on
/// every rank, no rank waits for one that failed, and older checkpoints are unchanged.
namespace tessera::dist {

/// Saves the shards of all ranks as the checkpoint of `state.step` in the run's folder `root`, on a file
/// system that all ranks share. All ranks write at the same time, each a file per group; rank 0 publishes,
/// with its `state`. Returns the checkpoint's folder.
std::string save_checkpoint(Communicator& world, const std::string& root, const TrainingState& state,
                            std::span<const GroupShard> groups, const SaveOptions& options = {});

/// Rank 0 calls `find_checkpoint`; every rank opens the checkpoint that it found.
std::unique_ptr<CheckpointReader> open_checkpoint(Communicator& world, const std::string& path);

/// Fills the shards of all ranks, in place, from a checkpoint that any number of ranks wrote. Before the
/// first value is written, verifies that all ranks read one checkpoint, that each group has exactly these
/// names, shapes and dtypes, and the content of the groups' files, each on one rank. Then each rank reads its
/// shards and nothing else, without a buffer where they are contiguous on the CPU.
void load_checkpoint(Communicator& world, const CheckpointReader& reader, std::span<const GroupShard> groups);

}  // namespace tessera::dist

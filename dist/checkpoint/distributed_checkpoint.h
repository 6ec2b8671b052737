#pragma once

#include <memory>
#include <span>
#include <string>

#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/checkpoint_writer.h"
#include "dist/comm/interface/communicator.h"

/// Saving and loading by all ranks of a world at once. Every rank calls the same functions in the same order,
/// with the same arguments but for the pieces. Errors are CheckpointErrors on every rank, with the words of
/// the rank that had one: none waits for another, and what was there stays.
namespace tessera::dist {

/// Saves the pieces of all ranks as the checkpoint of `state.step` in the run's folder `root`, which all
/// ranks see. Each rank writes its own, a file per group, at the same time; rank 0 publishes (its `state` is
/// the one that is kept). Returns the checkpoint's folder.
std::string save_checkpoint(Communicator& world, const std::string& root, const TrainingState& state,
                            std::span<const PieceGroup> groups, const SaveOptions& options = {});

/// `find_checkpoint` and CheckpointReader over ranks: rank 0 says which checkpoint, all open it.
std::unique_ptr<CheckpointReader> open_checkpoint(Communicator& world, const std::string& path);

/// Fills the pieces of all ranks, in place, from a checkpoint that any world wrote. Before the first number
/// is written anywhere, everything is verified: that all ranks read one checkpoint, that each group has
/// exactly these names, shapes and dtypes, and the files that hold the groups, each by one rank. Then each
/// rank reads its pieces and nothing else, without a buffer where they are contiguous on the CPU.
void load_checkpoint(Communicator& world, const CheckpointReader& reader, std::span<const PieceGroup> groups);

/// The beginning of a save.
struct BegunSave {
  std::unique_ptr<CheckpointWriter> writer;  ///< on rank 0, null elsewhere
  std::string folder;                        ///< the writer's, on every rank
};
BegunSave begin_save(Communicator& world, const std::string& root, int64_t step);

}  // namespace tessera::dist

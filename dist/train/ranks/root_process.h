#pragma once  // not in tessera.h

#include <cstdint>
#include <ostream>
#include <string>

#include "dist/fsdp/shard.h"
#include "dist/launch/world.h"
#include "nn/module.h"
#include "tensor/error.h"

/// What only one rank does, and what differs by rank.
namespace tessera::training {

/// Whether this is rank 0, which prints and writes files for all.
inline bool is_root_process(const dist::World& world) {
  return world.rank() == 0;
}

/// Writes the parts and a line break on rank 0, and nothing on the others:
/// `print0(world, std::cout, "loss ", loss)`.
template <class... Parts>
void print0(const dist::World& world, std::ostream& out, const Parts&... parts) {
  if (is_root_process(world)) out << text(parts...) << std::endl;
}

/// Writes a model's full values in one file (`nn::save`), by rank 0. `sharding` is that of a sharded model;
/// null without. All ranks call it together; the file is complete when it returns. Throws as `nn::save`, on
/// rank 0; the others then end with PeerFailedError.
void save0(dist::World& world, const nn::Module& model, const std::string& path,
           dist::Sharding* sharding = nullptr);

/// The name of a rank's own file: for rank 0 `path` itself, for rank 3 "run.rank3.jsonl" where it is
/// "run.jsonl". "" stays "".
std::string file_of_rank(const std::string& path, int rank);

/// seed + rank: of random numbers that differ by rank, such as augmentation by `manual_seed`. Dropout and
/// datasets need no such seed: their random numbers are keyed by the sample, which is on one rank.
inline uint64_t rank_seed(uint64_t seed, const dist::World& world) {
  return seed + static_cast<uint64_t>(world.rank());
}

}  // namespace tessera::training

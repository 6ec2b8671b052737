#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace tessera::tools {

struct PlanFlags {
  std::string preset = "gpt2";
  int64_t vocabulary = 0;  ///< 0: 50,304 for gpt2, 65 for the others
  int64_t block_size = 0;  ///< tokens of a sequence; 0: the preset's
  int64_t ranks = 8;
  int64_t ranks_per_node = 0;    ///< 0: all
  int64_t batch_size = 0;        ///< sequences of a step, of all ranks together; 0: 8 of each rank
  int64_t micro_batch_size = 0;  ///< 0: the powers of two
  std::string dtype = "fp32";
  uint64_t memory = 0;                          ///< bytes of a rank; 0: no limit
  double flops = 0;                             ///< FLOP/s of a rank; 0: this machine's rates, measured
  double memory_bandwidth = 0;                  ///< bytes/s
  double link_bandwidth = 0, link_latency = 0;  ///< bytes/s and s
  double node_link_bandwidth = 0, node_link_latency = 0;  ///< of links between nodes; 0: as within one
  bool overlaps = true;
  int best = 3;  ///< plans to print
};

/// Searches meshes, strategies, schedules, micro-batches and checkpointing for the fastest training of a
/// preset on some ranks, and prints the best few: prediction, reasons, and the command that runs each. Throws
/// ConfigError for flags out of range, for rates of which only some are given, and where nothing fits, with
/// the candidate that needs least.
void plan_training(const PlanFlags& flags, std::ostream& out);

}  // namespace tessera::tools

#pragma once

#include <iosfwd>
#include <string>

namespace tessera::tools {

struct ShardedStepOptions {
  std::string strategy = "full_shard";
  int ranks = 2;
  int layers = 4;
  int width = 128;
  int batch_size = 4;    ///< sequences of 64 tokens, of each rank
  std::string svg = "";  ///< file for the timeline; empty: none
};

/// Trains a small GPT for a few steps on ranks that are threads, and shows the last step on rank 0: its calls
/// from the ledger, their sum beside the strategy's formula, and, if `svg` is set, a timeline
/// (tools/tessera/step_timeline.h). Throws ConfigError for invalid options, and when the timeline cannot be
/// written.
void show_sharded_step(const ShardedStepOptions& options, std::ostream& out);

}  // namespace tessera::tools

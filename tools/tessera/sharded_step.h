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
  std::string svg = "";  ///< file of the picture; empty: none
};

/// Trains a small GPT for a few steps on ranks that are threads, and shows the last one, as rank 0 saw it:
/// its calls one by one as the ledger has them, their sums beside the strategy's formula, and, if asked for,
/// a picture of it (tools/tessera/step_timeline.h). Throws ConfigError for options that do not fit, and when
/// the picture cannot be written.
void show_sharded_step(const ShardedStepOptions& options, std::ostream& out);

}  // namespace tessera::tools

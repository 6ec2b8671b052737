#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace tessera::tools {

struct EstimateFlags {
  std::string preset = "gpt-lite";
  int64_t vocabulary = 0;     ///< 0: 50,304 for gpt2, 65 for the others
  int64_t parameters = -1;    ///< of a model that is only numbers; -1: the preset's
  int64_t largest_layer = 0;  ///< of that model
  bool is_cold = false;       ///< whether `parameters` was given
  int gpus_per_node = 8;
  int nodes = 1;
  double buffer_factor = 1.5;
  int decimals = 3;  ///< of GB
  std::vector<std::string> dtypes = {"float32", "float16", "int8", "int4"};
  int pipeline_stages = 0;                 ///< 0: none
  bool spec_layers = false;                ///< the embeddings are a layer of the pipeline, and count
  std::vector<int64_t> stage_blocks = {};  ///< further stages to show: of so many blocks each
  int64_t batch_size = 1;                  ///< sequences of a step, for the peak alone
};

/// Prints DeepSpeed's and Accelerate's estimates of memory for a preset or for numbers; for a preset also
/// those of pipeline stages, this library's own, and the peak of a training step, from a run on meta. Throws
/// ConfigError for an unknown preset or dtype, a negative size, or a flag that the model does not have.
void estimate_memory(const EstimateFlags& flags, std::ostream& out);

}  // namespace tessera::tools

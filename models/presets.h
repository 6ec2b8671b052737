#pragma once

#include <string>
#include <vector>

#include "models/gpt.h"

namespace tessera::models {

/// A model and its training configuration: the defaults of `gptlite train --preset NAME`.
struct Preset {
  std::string name;                 ///< one of `preset_names()`
  GptOptions model;                 ///< its architecture
  int64_t batch_size = 12;          ///< sequences per step, of all ranks together
  int64_t steps = 2000;             ///< optimizer steps in all
  double learning_rate = 1e-3;      ///< the maximum, after the warm-up
  double min_learning_rate = 1e-4;  ///< at the end of the cosine
  int64_t warmup_steps = 100;       ///< of linear warm-up
  double beta1 = 0.9;               ///< AdamW's decay of the mean gradient
  double beta2 = 0.99;              ///< AdamW's decay of the mean squared gradient
  double weight_decay = 0.1;        ///< of parameters with two or more dimensions
  double gradient_clip = 1.0;       ///< the largest gradient norm; 0 for no clipping
  int64_t eval_steps = 0;           ///< batches of a validation; 0: the whole validation set
};

/// 2 layers, 2 heads, 32 wide, block 32, dropout 0.1, biases; 28,576 parameters at 65 characters: seconds on
/// a simulated card, and the kernels of a larger model.
GptOptions tiny(int64_t vocabulary);
/// nanoGPT's configuration for a CPU: 4 layers, 4 heads, 128 wide, block 64; 804,096 parameters at 65
/// characters.
GptOptions nano_cpu(int64_t vocabulary);
/// nanoGPT's configuration for one GPU: 6, 6, 384, block 256, dropout 0.2; 10,745,088 parameters at 65
/// characters.
GptOptions nano(int64_t vocabulary);
/// 12, 12, 768, block 2048, dropout 0.1, untied head, no bias in queries, keys, values and head; 86,701,056
/// parameters at 65 characters.
GptOptions gpt_lite(int64_t vocabulary);
/// As gpt_lite with block 512 and without dropout: for the throughput of matrix products of that width.
GptOptions width_768(int64_t vocabulary);
/// GPT-2's 124M (Radford et al. 2019), its vocabulary padded to 50304: for throughput.
GptOptions gpt2(int64_t vocabulary = 50304);

/// The preset of that name, for a vocabulary. Throws ConfigError listing the names.
Preset preset(const std::string& name, int64_t vocabulary);
/// "tiny", "nano-cpu", "nano", "width-768", "gpt-lite", "gpt2".
std::vector<std::string> preset_names();

}  // namespace tessera::models

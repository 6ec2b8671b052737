#include "models/presets.h"

namespace tessera::models {

GptOptions tiny(int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .block_size = 32,
          .layers = 2,
          .heads = 2,
          .width = 32,
          .dropout = 0.1,
          .bias = true,
          .qkv_bias = true};
}

GptOptions nano_cpu(int64_t vocabulary) {
  return {.vocabulary = vocabulary, .block_size = 64, .layers = 4, .heads = 4, .width = 128};
}

GptOptions nano(int64_t vocabulary) {
  return {.vocabulary = vocabulary, .block_size = 256, .layers = 6, .heads = 6, .width = 384, .dropout = 0.2};
}

GptOptions gpt_lite(int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .block_size = 2048,
          .layers = 12,
          .heads = 12,
          .width = 768,
          .dropout = 0.1,
          .bias = true,
          .qkv_bias = false,
          .tie_weights = false};
}

GptOptions width_768(int64_t vocabulary) {
  GptOptions options = gpt_lite(vocabulary);
  options.block_size = 512;
  options.dropout = 0;
  return options;
}

GptOptions gpt2(int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .block_size = 1024,
          .layers = 12,
          .heads = 12,
          .width = 768,
          .dropout = 0,
          .bias = true,
          .qkv_bias = true,
          .tie_weights = true};
}

std::vector<std::string> preset_names() {
  return {"tiny", "nano-cpu", "nano", "width-768", "gpt-lite", "gpt2"};
}

Preset preset(const std::string& name, int64_t vocabulary) {
  if (name == "tiny")
    return {.name = name,
            .model = tiny(vocabulary),
            .batch_size = 4,
            .steps = 100,
            .warmup_steps = 10,
            .eval_steps = 2};
  if (name == "nano-cpu") return {.name = name, .model = nano_cpu(vocabulary)};
  if (name == "nano") return {.name = name, .model = nano(vocabulary), .batch_size = 64, .steps = 5000};
  Preset large{.name = name,
               .model = {},
               .batch_size = 8,
               .steps = 2000,
               .learning_rate = 6e-4,
               .min_learning_rate = 6e-5,
               .warmup_steps = 100,
               .beta2 = 0.95};
  if (name == "gpt-lite") {
    large.model = gpt_lite(vocabulary);
    large.batch_size = 1;
    return large;
  }
  if (name == "width-768") {
    large.model = width_768(vocabulary);
    large.batch_size = 2;
    return large;
  }
  if (name == "gpt2") {
    large.model = gpt2(vocabulary);
    return large;
  }
  throw ConfigError(
      text("preset '", name, "' is unknown: expected tiny, nano-cpu, nano, width-768, gpt-lite or gpt2"));
}

}  // namespace tessera::models

#include "tools/tessera/estimate.h"

#include <algorithm>
#include <cstdio>
#include <ostream>

#include "dist/train/estimate/memory_tables.h"
#include "models/presets.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tensor/number_text.h"
#include "tensor/random/random_context.h"
#include "tools/tessera/text_table.h"

namespace tessera::tools {
namespace {

using training::ModelSize;
using training::StageSize;
using training::ZeroSetup;

std::string gigabytes(int64_t bytes, int decimals) {
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.*fGB", decimals,
                static_cast<double>(bytes) / static_cast<double>(int64_t{1} << 30));
  return digits;
}

/// A layer of the pipeline.
struct Layer {
  int64_t parameters = 0, largest = 0;
};

Layer layer_of(const nn::Module& module) {
  const ModelSize size = training::model_size(module);
  return {size.parameters, size.largest_layer};
}

/// The layers of a GPT in forward order: embeddings, blocks, norm, head; with `spec_layers` the embeddings
/// are a module, else a function, which has no parameters, and a function at the end changes the order of
/// axes. A tied head is a copy on its own stage.
std::vector<Layer> pipeline_layers(const models::Gpt& gpt, bool spec_layers) {
  const Layer tokens = layer_of(gpt.wte), positions = layer_of(gpt.wpe);
  std::vector<Layer> layers{spec_layers ? Layer{tokens.parameters + positions.parameters,
                                                std::max(tokens.largest, positions.largest)}
                                        : Layer{}};
  for (const nn::Module& block : gpt.blocks.children()) layers.push_back(layer_of(block));
  layers.push_back(layer_of(gpt.ln_f));
  layers.push_back(gpt.head ? layer_of(*gpt.head) : tokens);
  if (!spec_layers) layers.push_back({});
  return layers;
}

StageSize stage_of(const std::vector<Layer>& layers, int64_t first, int64_t last, std::string name) {
  StageSize stage{.name = std::move(name)};
  for (int64_t i = first; i < last; ++i) {
    stage.parameters += layers[i].parameters;
    stage.largest_layer = std::max(stage.largest_layer, layers[i].largest);
  }
  return stage;
}

std::vector<StageSize> stages_of(const models::Gpt& gpt, const EstimateFlags& f) {
  const std::vector<Layer> layers = pipeline_layers(gpt, f.spec_layers);
  std::vector<int64_t> sizes;
  for (const Layer& layer : layers) sizes.push_back(layer.parameters);
  std::vector<StageSize> stages;
  if (f.pipeline_stages != 0) {
    const std::vector<int64_t> bounds = training::partition_by_parameters(sizes, f.pipeline_stages);
    for (int s = 0; s < f.pipeline_stages; ++s)
      stages.push_back(stage_of(layers, bounds[s], bounds[s + 1],
                                text("stage ", s, ", layers [", bounds[s], ", ", bounds[s + 1], ")")));
  }
  for (const int64_t blocks : f.stage_blocks) {
    require<ConfigError>(blocks >= 1 && blocks <= gpt.o.layers, "--stage-blocks: expected 1 to ",
                         gpt.o.layers, " blocks, got ", blocks);
    stages.push_back(
        stage_of(layers, 1, 1 + blocks, text("a stage of ", blocks, blocks > 1 ? " blocks" : " block")));
  }
  return stages;
}

/// The bytes of two training steps on meta at their peak; the second has the optimizer's state.
void print_step_peak(models::Gpt& gpt, const EstimateFlags& f, std::ostream& out) {
  const RandomContextScope context{RandomContext()};
  const auto account = make_intrusive<MemoryAccount>();
  const MetaAccountScope scope(account);
  models::Gpt trained(gpt.o);
  optim::AdamW adam(trained.parameters());
  const Tensor ids = Tensor::empty({f.batch_size, gpt.o.block_size}, i64, meta());
  for (int step = 0; step < 2; ++step) {
    trained.loss(ids, ids).backward();
    adam.step();
    adam.zero_grad();
  }
  const auto at_peak = account->at_peak();
  out << "\nPeak of a training step on one rank, in f32 with AdamW, batch " << f.batch_size << " x "
      << gpt.o.block_size << " tokens: " << gigabytes(account->total().peak, f.decimals) << ", of them "
      << gigabytes(at_peak[static_cast<size_t>(MemoryCategory::activation)], f.decimals)
      << " activations,\nwhich no table above counts.\n";
}

void print_zero(int64_t parameters, int64_t largest, const ZeroSetup& setup, std::ostream& out) {
  out << "\nZeRO-2, by DeepSpeed's formula\n"
      << training::estimate_zero2_model_states_mem_needs_all_cold(parameters, setup)
      << "\nZeRO-3, by DeepSpeed's formula\n"
      << training::estimate_zero3_model_states_mem_needs_all_cold(parameters, largest, setup);
}

void print_numbers(const EstimateFlags& f, const ZeroSetup& setup, std::ostream& out) {
  require<ConfigError>(f.parameters >= 0, "--parameters: expected 0 or more, got ", f.parameters);
  require<ConfigError>(f.largest_layer >= 0, "--largest-layer: expected 0 or more, got ", f.largest_layer);
  require<ConfigError>(f.pipeline_stages == 0 && f.stage_blocks.empty(),
                       "--pipeline-num-stages and --stage-blocks need a --preset, not --parameters");
  // An error of the setup comes before any output.
  training::estimate_zero3_model_states_mem_needs(f.parameters, f.largest_layer, {}, setup);
  out << training::native_size_text(4 * f.parameters, f.decimals) << "\n";
  print_zero(f.parameters, f.largest_layer, setup, out);
  out << "\n"
      << training::accelerate_memory_table("numbers", 4 * f.largest_layer, 4 * f.parameters, f.dtypes);
}

}  // namespace

void estimate_memory(const EstimateFlags& f, std::ostream& out) {
  require<ConfigError>(f.decimals >= 1 && f.decimals <= 9, "--decimals: expected 1 to 9, got ", f.decimals);
  require<ConfigError>(f.batch_size >= 1, "--batch-size: expected 1 or more, got ", f.batch_size);
  require<ConfigError>(f.pipeline_stages >= 0, "--pipeline-num-stages: expected 0 or more, got ",
                       f.pipeline_stages);
  require<ConfigError>(f.vocabulary >= 0, "--vocabulary: expected 1 or more, got ", f.vocabulary);
  for (const std::string& dtype : f.dtypes) training::dtype_memory(0, 0, dtype);
  const ZeroSetup setup{f.gpus_per_node, f.nodes, f.buffer_factor, f.decimals};
  if (f.is_cold) return print_numbers(f, setup, out);

  const int64_t vocabulary = f.vocabulary > 0 ? f.vocabulary : f.preset == "gpt2" ? 50304 : 65;
  models::Gpt gpt(models::preset(f.preset, vocabulary).model);
  const ModelSize size = training::model_size(gpt);
  const std::vector<StageSize> stages = stages_of(gpt, f);
  // An error of the setup comes before any output.
  training::estimate_zero3_model_states_mem_needs(size.parameters, size.largest_layer, {}, setup);
  out << f.preset << ", vocabulary " << vocabulary << ": " << with_commas(size.parameters)
      << " parameters, the largest layer has " << with_commas(size.largest_layer) << "\n"
      << training::native_size_text(size.bytes, f.decimals) << "\n";
  print_zero(size.parameters, size.largest_layer, setup, out);
  out << "\n"
      << training::accelerate_memory_table(f.preset, size.largest_leaf_bytes, size.total_bytes, f.dtypes);
  if (!stages.empty()) out << "\nPipeline stages, per GPU\n" << training::stage_memory_table(stages, setup);
  const int ranks = f.gpus_per_node * f.nodes;
  out << "\nTessera, each of " << ranks << (ranks > 1 ? " ranks" : " rank") << ", in f32 with AdamW\n"
      << training::sharding_memory_table(gpt, dist::every<models::Block>(), {.shards = ranks}, f.decimals);
  print_step_peak(gpt, f, out);
}

}  // namespace tessera::tools

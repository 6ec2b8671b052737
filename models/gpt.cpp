#include "models/gpt.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/autocast/autocast.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "nn/quantize_weights.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/quantized_linear.h"
#include "tensor/ops/layers/transformer_step.h"

namespace tessera::models {

Variable Mlp::project(const Variable& x) const {
  return proj.forward_activated(fc(x), Activation::gelu);
}

Variable Mlp::forward(const Variable& x) const {
  return drop(project(x));
}

nn::BeforeDropout Mlp::forward_before_dropout(const Variable& x) const {
  const auto body = [this](const Variable& in) { return nn::BeforeDropout{project(in), drop.mask()}; };
  return call(nn::rerunnable(body), x);
}

// x = x + attention(norm(x)); x = x + mlp(norm(x)). The first sum, its dropout and its norm are one pass.
Variable Block::forward(const Variable& x) const {
  const auto [x_1, normal_1] = ln_1.fork_and_norm(x);
  const auto [x_2, normal_2] = ln_2.add_dropout_and_norm(x_1, attn.forward_before_dropout(normal_1));
  return nn::add_dropout(x_2, mlp.forward_before_dropout(normal_2));
}

Variable Block::forward_cached(const Variable& x, nn::KeyValueCache& cache,
                               std::span<const int64_t> counts) const {
  const auto body = [&](const Variable& in) {
    const Variable h = in + attn.forward_cached(ln_1(in), cache, counts);
    return h + mlp(ln_2(h));
  };
  return call(body, x);
}

ops::TransformerStepWeights Block::step_weights() const {
  const auto bias_of = [](const auto& layer) { return layer.bias ? layer.bias->value() : Tensor(); };
  const auto weight_of = [](const nn::Linear& layer) {
    return layer.quantized_weight() ? layer.quantized_weight()->values : layer.weight.value();
  };
  const auto scales_of = [](const nn::Linear& layer) {
    return layer.quantized_weight() ? layer.quantized_weight()->scales : Tensor();
  };
  return {.norm_1 = ln_1.weight.value(),
          .norm_1_bias = bias_of(ln_1),
          .qkv = weight_of(attn.c_attn),
          .qkv_bias = bias_of(attn.c_attn),
          .projection = weight_of(attn.c_proj),
          .projection_bias = bias_of(attn.c_proj),
          .norm_2 = ln_2.weight.value(),
          .norm_2_bias = bias_of(ln_2),
          .widening = weight_of(mlp.fc),
          .widening_bias = bias_of(mlp.fc),
          .narrowing = weight_of(mlp.proj),
          .narrowing_bias = bias_of(mlp.proj),
          .epsilon = ln_1.o.epsilon,
          .activation = Activation::gelu,
          .qkv_scales = scales_of(attn.c_attn),
          .projection_scales = scales_of(attn.c_proj),
          .widening_scales = scales_of(mlp.fc),
          .narrowing_scales = scales_of(mlp.proj)};
}

bool Block::takes_step() const {
  const nn::Module* const modules[] = {this,  &ln_1, &attn,   &attn.c_attn, &attn.c_proj,
                                       &ln_2, &mlp,  &mlp.fc, &mlp.proj,    &mlp.drop};
  for (const nn::Module* module : modules)
    if (module->has_hooks()) return false;
  return !(is_training() && o.dropout > 0) && ops::takes_transformer_step(step_weights());
}

void Block::step(const Tensor& x, nn::KeyValueCache& cache) const {
  cache.append_by([&](const Tensor& keys, const Tensor& values) {
    ops::transformer_step(x, step_weights(), keys, values, cache.lengths());
  });
}

namespace {

const GptOptions& checked(const GptOptions& o) {
  const auto at_least_one = [](int64_t value, const char* name) {
    require<ValueError>(value >= 1, "Gpt: expected ", name, " to be at least 1, got ", value);
  };
  at_least_one(o.vocabulary, "vocabulary");
  at_least_one(o.block_size, "block_size");
  at_least_one(o.layers, "layers");
  at_least_one(o.heads, "heads");
  at_least_one(o.width, "width");
  require<ValueError>(o.width % o.heads == 0, "Gpt: expected heads to divide the width ", o.width, ", got ",
                      o.heads);
  require<ValueError>(o.dropout >= 0 && o.dropout < 1, "Gpt: expected dropout in [0, 1), got ", o.dropout);
  return o;
}

}  // namespace

Gpt::Gpt(Options options) : Layer(checked(options)) {
  // The residual stream is the sum of 2 L projections: GPT-2 scales their initial values accordingly.
  const init::Initializer projection = init::normal(0.02 / std::sqrt(2.0 * static_cast<double>(o.layers)));
  for (int64_t i = 0; i < o.layers; ++i)
    blocks.push({.width = o.width,
                 .heads = o.heads,
                 .dropout = o.dropout,
                 .bias = o.bias,
                 .qkv_bias = o.qkv_bias,
                 .projection_init = projection});
}

Variable Gpt::embed(const Tensor& ids, int64_t first_position) const {
  require<ShapeError>(ids.ndim() == 2, "Gpt: expected ids (B, T), got ", describe(ids));
  const int64_t last = first_position + ids.size(1);
  require<ShapeError>(last <= o.block_size, "Gpt: ", last, " positions do not fit the block size ",
                      o.block_size, "; ids are ", describe(ids));
  const Tensor positions = ops::arange(first_position, last, 1, i64, ids.device());
  return wte.forward_add(ids, wpe(positions), drop.mask());  // (B, T, C) + (T, C)
}

/// The same where each row goes on at a position of its own. Ids after `counts[b]` of row b have any
/// position.
Variable Gpt::embed_cached(const Tensor& ids, const nn::KeyValueCache& cache,
                           std::span<const int64_t> counts) const {
  if (counts.empty() && !cache.is_ragged()) return embed(ids, cache.length());
  require<ShapeError>(ids.ndim() == 2 && ids.size(0) == cache.batch(), "Gpt: expected ids (", cache.batch(),
                      ", T) for the cache, got ", describe(ids));
  const Tensor positions = Tensor::empty(ids.shape(), i64);
  for (int64_t b = 0; b < ids.size(0); ++b) {
    const int64_t first = cache.lengths()[static_cast<size_t>(b)],
                  count = counts.empty() ? ids.size(1) : counts[static_cast<size_t>(b)];
    require<ShapeError>(first + count <= o.block_size, "Gpt: ", first + count,
                        " positions do not fit the block size ", o.block_size, " in row ", b);
    for (int64_t t = 0; t < ids.size(1); ++t)
      positions.data<int64_t>()[b * ids.size(1) + t] = std::min(first + t, o.block_size - 1);
  }
  return drop(wte(ids) + wpe(positions.to(ids.device())));
}

/// The embeddings (N, C) of ids (N), `counts[b]` of row b, each row going on at its own position.
Variable Gpt::embed_packed(const Tensor& ids, const nn::KeyValueCache& cache,
                           std::span<const int64_t> counts) const {
  std::vector<int64_t> positions;
  for (int64_t b = 0; b < cache.batch(); ++b) {
    const int64_t first = cache.lengths()[static_cast<size_t>(b)],
                  count = counts.empty() ? 1 : counts[static_cast<size_t>(b)];
    require<ValueError>(count >= 1, "Gpt: expected at least one id for each row, got ", count, " for row ",
                        b);
    require<ShapeError>(first + count <= o.block_size, "Gpt: ", first + count,
                        " positions do not fit the block size ", o.block_size, " in row ", b);
    for (int64_t t = 0; t < count; ++t) positions.push_back(first + t);
  }
  const int64_t n = std::ssize(positions);
  require<ShapeError>(ids.shape() == Shape{n}, "Gpt: expected ids (", n, ") for the cache's ", cache.batch(),
                      " rows, got ", describe(ids));
  const Tensor at = Tensor::from(positions, {n}).to(ids.device());
  return reshape(wte.forward_add(ids.view({1, n}), wpe(at), drop.mask()), {n, o.width});
}

Variable Gpt::features(const Tensor& ids) const {
  return ln_f(blocks(embed(ids, 0)));
}

Variable Gpt::logits(const Variable& features) const {
  return head ? (*head)(features) : wte.logits(features);
}

Variable Gpt::forward(const Tensor& ids) const {
  return logits(features(ids));
}

Variable Gpt::loss(const Tensor& ids, const Tensor& targets) const {
  return call(nn::rerunnable([this, ids, targets] {
    const Variable h = features(ids);
    return head ? head->cross_entropy(h, targets) : wte.cross_entropy(h, targets);
  }));
}

Variable Gpt::forward_cached(const Tensor& ids, GptCache& cache, std::span<const int64_t> counts) const {
  return call([&] {
    NoGrad no_grad;
    check_cache(cache, counts);
    Variable x = embed_cached(ids, cache.blocks.front(), counts);
    for (size_t i = 0; i < blocks.size(); ++i) x = blocks[i].forward_cached(x, cache.blocks[i], counts);
    return logits(ln_f(x));
  });
}

void Gpt::check_cache(const GptCache& cache, std::span<const int64_t> counts) const {
  require<ValueError>(cache.blocks.size() == blocks.size(), "Gpt: the cache has ", cache.blocks.size(),
                      " blocks, the model ", blocks.size(), "; make it by make_cache");
  require<ValueError>(counts.empty() || std::ssize(counts) == cache.blocks.front().batch(),
                      "Gpt: expected a count for each of the ", cache.blocks.front().batch(),
                      " rows of the cache, got ", counts.size());
}

/// x (N, C) through all blocks: by their steps where all take them and there is one position of each row.
Variable Gpt::run_blocks(const Variable& x, GptCache& cache, std::span<const int64_t> counts) const {
  bool steps = counts.empty() && x.size(0) <= ops::transformer_step_rows && !is_autocast_enabled() &&
               cache.blocks.front().dtype() == x.dtype();
  for (size_t i = 0; i < blocks.size() && steps; ++i) steps = blocks[i].takes_step();
  if (!steps) {
    Variable y = x;
    for (size_t i = 0; i < blocks.size(); ++i) y = blocks[i].forward_cached(y, cache.blocks[i], counts);
    return y;
  }
  const Tensor y = x.dtype() == f32 ? x.value().clone() : ops::cast(x.value(), f32);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i].step(y, cache.blocks[i]);
  return Variable(ops::cast(y, x.dtype()));
}

Variable Gpt::next_logits(const Tensor& ids, GptCache& cache, std::span<const int64_t> counts) const {
  return call([&] {
    NoGrad no_grad;
    check_cache(cache, counts);
    Variable x = run_blocks(embed_packed(ids, cache.blocks.front(), counts), cache, counts);
    if (!counts.empty()) {
      std::vector<int64_t> last(counts.size());
      std::partial_sum(counts.begin(), counts.end(), last.begin());
      for (int64_t& position : last) --position;
      x = index_select(x, 0, Tensor::from(last, {std::ssize(last)}).to(ids.device()));
    }
    return logits(ln_f(x));
  });
}

nn::LayeredModel Gpt::to_layered_model() const {
  nn::LayeredModel model;
  model.layers.push_back(nn::function_layer("embeddings", {&wte, &wpe, &drop},
                                            [this](const Tensor& ids) { return embed(ids, 0); }));
  for (nn::LayerSpec& block : blocks.to_layers()) model.layers.push_back(std::move(block));
  model.layers.push_back(nn::module_layer(ln_f));
  model.loss.modules = {head_module()};
  model.loss.run = [this](const nn::LayerValues& features, const std::vector<Tensor>& targets) {
    return head ? head->cross_entropy(features.at(0), targets.at(0))
                : wte.cross_entropy(features.at(0), targets.at(0));
  };
  model.result = [this](const nn::LayerValues& features) { return nn::LayerValues{logits(features.at(0))}; };
  return model;
}

std::vector<nn::LayerSpec> Gpt::to_layers() const {
  std::vector<nn::LayerSpec> layers = to_layered_model().layers;
  layers.push_back(
      nn::function_layer("head", {head_module()}, [this](const Variable& h) { return logits(h); }));
  return layers;
}

const nn::Module* Gpt::head_module() const {
  if (head) return head;
  return &wte;
}

void Gpt::quantize_weights() {
  if (!head) wte.quantized_table();  // throws before a layer has changed
  nn::quantize_weights(*this);
  if (!head) wte.quantize_logits();
}

GptCache Gpt::make_cache(int64_t batch, int64_t capacity) const {
  GptCache cache;
  for (int64_t i = 0; i < o.layers; ++i)
    cache.blocks.push_back(nn::KeyValueCache({.batch = batch,
                                              .heads = o.heads,
                                              .capacity = capacity > 0 ? capacity : o.block_size,
                                              .width = o.width / o.heads,
                                              .dtype = wte.weight.dtype(),
                                              .device = wte.weight.device()}));
  return cache;
}

int64_t parameter_count(const GptOptions& o) {
  const int64_t c = o.width;
  const int64_t norm = c + (o.bias ? c : 0);
  const int64_t attention = 4 * c * c + (o.qkv_bias ? 3 * c : 0) + (o.bias ? c : 0);
  const int64_t mlp = 8 * c * c + (o.bias ? 5 * c : 0);
  return (o.vocabulary * (o.tie_weights ? 1 : 2) + o.block_size) * c +
         o.layers * (2 * norm + attention + mlp) + norm;
}

int64_t flops_per_token(const GptOptions& o) {
  return 6 * (parameter_count(o) - o.block_size * o.width) + 12 * o.layers * o.width * o.block_size;
}

}  // namespace tessera::models

// Activation checkpointing of a model's list of layers: bits, bytes, and plans for a budget.

#include <doctest/doctest.h>

#include <cstring>

#include "autograd/debug/graph_dot.h"
#include "autograd/recompute/stores.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "nn/sequence/checkpoint_plan.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

constexpr int64_t batch = 4, length = 32, vocabulary = 17;
const models::GptOptions options{.vocabulary = vocabulary,
                                 .block_size = length,
                                 .layers = 6,
                                 .heads = 4,
                                 .width = 64,
                                 .dropout = 0.2,
                                 .bias = true};

Tensor ids(int64_t first) {
  const Tensor x = Tensor::empty({batch, length}, i64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<int64_t>()[i] = (first + i * i) % vocabulary;
  return x;
}

/// Forward and backward of the layers of a model, and what they took.
struct Step {
  double loss = 0;
  int64_t saved = 0, peak = 0;
  std::vector<Tensor> gradients;
};

using Change = std::function<std::vector<nn::LayerSpec>(std::vector<nn::LayerSpec>)>;

Step step(const Change& change) {
  models::Gpt gpt(options);
  nn::materialize(gpt, cpu(), 5);
  for (const NamedParameter& parameter : gpt.parameters())
    parameter.variable.set_grad(ops::zeros(parameter.variable.shape()));
  const Tensor x = ids(0), targets = ids(1);
  begin_random_step(1, 0, {});
  Step result;
  {
    const auto account = make_intrusive<MemoryAccount>();
    const AccountScope scope(account);
    nn::LayeredModel model = gpt.to_layered_model();
    model.layers = change(std::move(model.layers));
    const Variable loss = model.loss.run(nn::run_layers(model.layers, {Variable(x)}), {targets});
    result.saved = saved_bytes(loss);
    result.loss = loss.item();
    loss.backward();
    result.peak = account->total().peak;
  }
  for (const NamedParameter& parameter : gpt.parameters())
    result.gradients.push_back(parameter.variable.grad().value());
  return result;
}

bool same_bits(const Step& a, const Step& b) {
  if (std::memcmp(&a.loss, &b.loss, sizeof a.loss) != 0) return false;
  for (size_t i = 0; i < a.gradients.size(); ++i)
    if (std::memcmp(a.gradients[i].raw_data(), b.gradients[i].raw_data(),
                    static_cast<size_t>(a.gradients[i].nbytes())) != 0)
      return false;
  return true;
}

nn::CheckpointPlan plan_of(int64_t budget, bool offload = false) {
  const models::Gpt gpt(options);
  const Tensor on_meta = Tensor::empty({batch, length}, i64, meta());
  return nn::plan_checkpointing(gpt.to_layered_model(), {Variable(on_meta)}, {on_meta}, budget,
                                {.keeps = {{"self_attention"}}, .offload = offload});
}

}  // namespace

TEST_CASE("layer checkpointing: every k-th of 15 layers") {
  const std::vector<nn::KeptOfLayer> kept = nn::every_layer(15, 4);
  for (size_t i = 0; i < 15; ++i) CHECK(kept[i].is_checkpointed == (i % 4 == 0));
  for (const nn::KeptOfLayer& one : nn::every_layer(15, 0)) CHECK_FALSE(one.is_checkpointed);
  CHECK_THROWS_AS(nn::every_layer(15, -1), ConfigError);
  CHECK_THROWS_WITH_AS(nn::checkpoint_layers({}, kept),
                       "checkpoint_layers: expected an entry for each of 0 layers, got 15", ConfigError);
}

TEST_CASE("layer checkpointing: the same bits with dropout, and fewer bytes") {
  const Step all = step([](auto layers) { return layers; });
  int64_t more = 0;
  for (const int64_t k : {1, 2, 4}) {
    const Step some =
        step([k](auto layers) { return nn::checkpoint_layers(layers, nn::every_layer(layers.size(), k)); });
    CHECK(same_bits(some, all));
    CHECK(some.saved > more);  // more layers in between keep all
    CHECK(some.saved < all.saved);
    more = some.saved;
  }
  const auto blocks = [](auto layers) {
    return nn::checkpoint_layers(
        layers, nn::layers_where(layers, [](const nn::LayerSpec& layer) { return layer.kind == "Block"; },
                                 {"self_attention"}));
  };
  CHECK(same_bits(step(blocks), all));
  for (const int64_t interval : {1, 3, 100}) {
    const Step segments = step([interval](auto layers) { return nn::checkpoint_segments(layers, interval); });
    CHECK(same_bits(segments, all));
    CHECK(segments.saved < all.saved / 3);
  }
  const auto nested = [](auto layers) {
    return nn::checkpoint_segments(nn::checkpoint_layers(layers, nn::every_layer(layers.size(), 1)), 3);
  };
  CHECK(same_bits(step(nested), all));
}

TEST_CASE("layer checkpointing: a plan for a budget holds it, as predicted") {
  const Step all = step([](auto layers) { return layers; });
  const nn::CheckpointPlan whole = plan_of(int64_t{1} << 40);
  CHECK(whole.cost.flops == whole.without.flops);
  CHECK(std::abs(static_cast<double>(whole.cost.peak_bytes) / static_cast<double>(all.peak) - 1) < 0.05);
  int64_t flops = whole.without.flops;
  for (const int percent : {75, 50, 35, 30}) {
    const int64_t budget = whole.without.peak_bytes * percent / 100;
    const nn::CheckpointPlan plan = plan_of(budget);
    CAPTURE(percent);
    CHECK(plan.cost.peak_bytes <= budget);
    CHECK(plan.cost.flops >= flops);
    flops = plan.cost.flops;
    const Step planned = step([&](auto layers) { return nn::checkpoint_layers(layers, plan.kept); });
    CHECK(same_bits(planned, all));
    CHECK(std::abs(static_cast<double>(plan.cost.peak_bytes) / static_cast<double>(planned.peak) - 1) < 0.05);
  }
  CHECK(flops > whole.without.flops);
  const models::Gpt gpt(options);
  CHECK(to_string(plan_of(whole.without.peak_bytes / 2), gpt.to_layered_model())
            .starts_with("layers [0, 1) 'embeddings' to 'embeddings': keep all\n"
                         "layers [1, 2) 'blocks.0' to 'blocks.0': keep inputs\n"
                         "layers [2, 5) 'blocks.1' to 'blocks.3': keep inputs, self_attention\n"));
  CHECK_THROWS_WITH_AS(plan_of(1000), doctest::Contains("expected a budget of at least"), ConfigError);
}

TEST_CASE(
    "layer checkpointing: with inputs elsewhere a plan fits fewer bytes, and moves no more than it must") {
  const nn::CheckpointPlan half = plan_of(plan_of(int64_t{1} << 40).without.peak_bytes / 2, true);
  CHECK(half.cost.offloaded_bytes == 0);  // recomputation is enough
  const Step all = step([](auto layers) { return layers; });
  int64_t moved = 0;
  for (const int percent : {28, 24, 22}) {
    CAPTURE(percent);
    const int64_t budget = half.without.peak_bytes * percent / 100;
    CHECK_THROWS_AS(plan_of(half.without.peak_bytes * 22 / 100), ConfigError);
    const nn::CheckpointPlan plan = plan_of(budget, true);
    CHECK(plan.cost.peak_bytes <= budget);
    CHECK(plan.cost.offloaded_bytes >= moved);
    moved = plan.cost.offloaded_bytes;
    const HostStore host;
    const Step planned =
        step([&](auto layers) { return nn::checkpoint_layers(layers, plan.kept, host.policy()); });
    CHECK(same_bits(planned, all));
    CHECK(std::abs(static_cast<double>(plan.cost.peak_bytes) / static_cast<double>(planned.peak) - 1) < 0.05);
    CHECK(host.account().total().peak == plan.cost.offloaded_bytes);
    CHECK(host.account().total().current == 0);
  }
  CHECK(moved > 0);
  const models::Gpt gpt(options);
  CHECK(to_string(plan_of(half.without.peak_bytes * 22 / 100, true), gpt.to_layered_model())
            .find("keep inputs elsewhere") != std::string::npos);
  CHECK_THROWS_WITH_AS(
      nn::checkpoint_layers(gpt.to_layers(),
                            std::vector<nn::KeptOfLayer>(9, nn::KeptOfLayer{true, {}, true})),
      "checkpoint_layers: expected a store for the inputs of 'embeddings', which has offload, got none",
      ConfigError);
}

// Bytes and time of a step of a GPT under activation checkpointing, predicted and measured: all kept, a
// checkpoint at every block, and the cheapest plan for budgets of bytes. Prints one JSON object;
// run_checkpointing.py makes a table and a plot of it.
//
//     build/release/bin/bench/bench_checkpointing --preset gpt-lite --rounds 3

#include <json/json.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>

#include "autograd/recompute/stores.h"
#include "models/presets.h"
#include "nn/checkpoint_modules.h"
#include "nn/materialize.h"
#include "nn/sequence/checkpoint_plan.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/random/random_context.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

struct Options {
  std::string preset = "gpt-lite";
  int64_t batch_size = 0, block_size = 0;
  int rounds = 3;
  std::vector<int> budgets = {100, 50, 25, 10};
};

Options parse(CLI::App& app, int argc, char** argv) {
  Options o;
  app.add_option("--preset", o.preset)->capture_default_str();
  app.add_option("--batch-size", o.batch_size, "sequences; 0: the preset's");
  app.add_option("--block-size", o.block_size, "tokens of a sequence; 0: the preset's");
  app.add_option("--rounds", o.rounds, "measured steps of each variant, in turn")->capture_default_str();
  app.add_option("--budgets", o.budgets, "percent of the bytes without checkpoints")->delimiter(',');
  app.parse(argc, argv);
  require<ConfigError>(o.rounds >= 1, "--rounds ", o.rounds, ": expected at least 1");
  return o;
}

/// A way to keep less, as predicted and as measured.
struct Variant {
  std::string name;
  std::vector<nn::KeptOfLayer> kept;
  nn::StepCost predicted = {};
  int64_t budget = 0;      // bytes; 0: none
  bool has_parts = false;  // attention and MLP run again one by one, within blocks that run again too
  std::vector<double> seconds = {};
  int64_t peak = 0, offloaded = 0;
  bool has_same_bits = true;
};

std::vector<nn::KeptOfLayer> blocks(const nn::LayeredModel& model, const std::vector<std::string>& keep) {
  return nn::layers_where(
      model.layers, [](const nn::LayerSpec& layer) { return layer.kind == "Block"; }, keep);
}

constexpr const char* parts = "Mlp|CausalSelfAttention";

std::vector<Variant> predict(const models::Preset& preset, const Options& o) {
  models::Gpt gpt(preset.model);
  const nn::LayeredModel model = gpt.to_layered_model();
  const Tensor ids = Tensor::empty({preset.batch_size, preset.model.block_size}, i64, meta());
  const nn::LayerValues inputs{Variable(ids)};
  std::vector<Variant> variants{{"all kept", std::vector<nn::KeptOfLayer>(model.layers.size())},
                                {"every block, attention kept", blocks(model, {"self_attention"})},
                                {"every block", blocks(model, {})}};
  for (Variant& variant : variants) variant.predicted = nn::step_cost(model, inputs, {ids}, variant.kept);
  for (const int percent : o.budgets) {
    const int64_t budget = variants[0].predicted.peak_bytes * percent / 100;
    const auto plan_of = [&] {
      return nn::plan_checkpointing(model, inputs, {ids}, budget,
                                    {.keeps = {{"self_attention"}}, .offload = true});
    };
    Variant variant{.name = text("budget of ", percent, " %"), .kept = {}, .budget = budget};
    nn::CheckpointPlan plan;
    try {
      plan = plan_of();
    } catch (const ConfigError&) {  // one block that runs again has more than that
      nn::checkpoint_matching(gpt, parts);
      variant.has_parts = true;
      plan = plan_of();
      nn::end_checkpointing(gpt);
    }
    variant.kept = plan.kept;
    variant.predicted = plan.cost;
    std::cerr << variant.name << (variant.has_parts ? ", blocks in two parts" : "") << "\n"
              << to_string(plan, model);
    variants.push_back(std::move(variant));
  }
  return variants;
}

/// The gradients of a step's parameters.
std::vector<Tensor> gradients_of(const models::Gpt& gpt) {
  std::vector<Tensor> gradients;
  for (const NamedParameter& parameter : gpt.parameters())
    gradients.push_back(parameter.variable.grad().value());
  return gradients;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(a[i].raw_data(), b[i].raw_data(), static_cast<size_t>(a[i].nbytes())) != 0) return false;
  return a.size() == b.size();
}

void measure(std::vector<Variant>& variants, const models::Preset& preset, const Options& o) {
  models::Gpt gpt(preset.model);
  nn::materialize(gpt, cpu(), 1337);
  const Tensor ids = Tensor::empty({preset.batch_size, preset.model.block_size}, i64);
  for (int64_t i = 0; i < ids.numel(); ++i) ids.data<int64_t>()[i] = i * i % preset.model.vocabulary;
  std::vector<Tensor> expected;
  for (int round = -1; round < o.rounds; ++round)  // the first one warms up
    for (Variant& variant : variants) {
      for (const NamedParameter& parameter : gpt.parameters())
        parameter.variable.set_grad(ops::zeros(parameter.variable.shape()));
      nn::LayeredModel model = gpt.to_layered_model();
      if (variant.has_parts) nn::checkpoint_matching(gpt, parts);
      const HostStore host;
      const nn::LossSpec loss_spec = model.loss;
      const std::vector<nn::LayerSpec> layers =
          nn::checkpoint_layers(std::move(model.layers), variant.kept, host.policy());
      const auto account = make_intrusive<MemoryAccount>();
      begin_random_step(1, 0, {});
      const auto began = std::chrono::steady_clock::now();
      {
        const AccountScope scope(account);
        const Variable loss = loss_spec.run(nn::run_layers(layers, {Variable(ids)}), {ids});
        loss.backward();
      }
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
      nn::end_checkpointing(gpt);
      variant.peak = account->total().peak;
      variant.offloaded = host.account().total().peak;
      if (round >= 0)
        variant.seconds.push_back(passed.count());
      else if (expected.empty())
        for (const Tensor& gradient : gradients_of(gpt)) expected.push_back(gradient.clone());
      variant.has_same_bits = variant.has_same_bits && same_bits(gradients_of(gpt), expected);
    }
}

Json::Value describe(const Variant& variant, const Variant& base) {
  Json::Value v;
  v["name"] = variant.name;
  if (variant.budget > 0) v["budget_bytes"] = Json::Int64(variant.budget);
  v["predicted_bytes"] = Json::Int64(variant.predicted.peak_bytes);
  v["measured_bytes"] = Json::Int64(variant.peak);
  v["predicted_flops"] =
      static_cast<double>(variant.predicted.flops) / static_cast<double>(base.predicted.flops);
  v["predicted_offload"] = Json::Int64(variant.predicted.offloaded_bytes);
  v["measured_offload"] = Json::Int64(variant.offloaded);
  // Rounds run in turn, so that ratios compare steps of the same minute.
  std::vector<double> ratios;
  for (size_t i = 0; i < variant.seconds.size(); ++i) {
    v["seconds"].append(variant.seconds[i]);
    ratios.push_back(variant.seconds[i] / base.seconds[i]);
  }
  std::nth_element(ratios.begin(), ratios.begin() + std::ssize(ratios) / 2, ratios.end());
  v["time"] = ratios[ratios.size() / 2];
  v["same_bits"] = variant.has_same_bits;
  return v;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Bytes and time of a step under activation checkpointing");
  try {
    const Options o = parse(app, argc, argv);
    models::Preset preset = models::preset(o.preset, 65);
    if (o.batch_size > 0) preset.batch_size = o.batch_size;
    if (o.block_size > 0) preset.model.block_size = o.block_size;
    std::vector<Variant> variants = predict(preset, o);
    measure(variants, preset, o);
    Json::Value v;
    v["program"] = "bench_checkpointing";
    v["preset"] = preset.name;
    v["batch_size"] = Json::Int64(preset.batch_size);
    v["block_size"] = Json::Int64(preset.model.block_size);
    v["dropout"] = preset.model.dropout;
    v["threads"] = num_threads();
    for (const Variant& variant : variants) v["variants"].append(describe(variant, variants[0]));
    std::cout << v.toStyledString();
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const Error& error) {
    std::cerr << "bench_checkpointing: " << error.what() << "\n";
    return 1;
  }
  return 0;
}

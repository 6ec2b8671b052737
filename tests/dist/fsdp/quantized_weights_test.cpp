// A model with weights of 8-bit integers is for inference: sharding it is an error on every rank.

#include "nn/quantize_weights.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "autograd/grad_mode.h"
#include "dist/fsdp/shard.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/fsdp/rank_errors.h"
#include "tests/support/error_text.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

struct Model : nn::Layer<Model> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 5, .out = 5});
  nn::Linear& b = add<nn::Linear>("b", {.in = 5, .out = 5});
  Variable forward(const Variable& x) { return b(a(x)); }
};

ShardOptions options_for(World& world, Strategy strategy) {
  return {.mesh = Mesh(world), .strategy = strategy, .units = every<nn::Linear>()};
}

constexpr const char* message = "shard: nn::Linear 'b': it multiplies by 8-bit integers";

}  // namespace

TEST_CASE("quantised weights: shard throws on every rank, before anything is sent") {
  for (const Strategy strategy : flat_strategies) {
    CAPTURE(name_of(strategy));
    test::require_no_problems(2, [&](World& world) {
      std::vector<std::string> problems;
      for (const bool sync : {false, true}) {
        Model model;
        nn::materialize(model, cpu(), 3);
        nn::quantize_weights(model.b);
        ShardOptions options = options_for(world, strategy);
        options.sync_module_states = sync;
        try {
          dist::shard(model, options);
          problems.push_back("no error");
        } catch (const ConfigError& error) {
          if (!contains(error.what(), message)) problems.push_back(error.what());
        }
        if (model.store()) problems.push_back("the model has a store");
        const NoGrad no_grad;
        if (model(Variable(random_tensor({2, 5}, f32, 1))).shape() != Shape{2, 5})
          problems.push_back("the model does not run");
      }
      return problems;
    });
  }
}

TEST_CASE("quantised weights: on one rank alone they end the run on all") {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<std::string> errors = test::errors_of(2, [](World& world) {
    Model model;
    nn::materialize(model, cpu(), 3);
    if (world.rank() == 1) nn::quantize_weights(model.b);
    dist::shard(model, options_for(world, Strategy::full_shard));
  });
  CHECK_MESSAGE(contains(errors[1], message), errors[1]);
  CHECK_MESSAGE(contains(errors[0], "rank 1"), errors[0]);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(9));  // the timeout of a wait is 10 s
}

TEST_CASE("quantised weights: a head's integers of an embedding count, an ignored layer may have them") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    nn::Embedding table(7, 5);
    nn::materialize(table, cpu(), 3);
    table.quantize_logits();
    try {
      dist::shard(table, {.mesh = Mesh(world)});
      problems.push_back("no error for the embedding");
    } catch (const ConfigError&) {
    }
    Model model;
    nn::materialize(model, cpu(), 3);
    nn::quantize_weights(model.b);
    ShardOptions options = options_for(world, Strategy::full_shard);
    options.ignored = {&model.b};
    dist::shard(model, options);
    const NoGrad no_grad;
    Model alone;
    nn::materialize(alone, cpu(), 3);
    nn::quantize_weights(alone.b);
    const Variable x(random_tensor({2, 5}, f32, 1));
    if (!same_bits(model(x).value(), alone(x).value())) problems.push_back("other results");
    return problems;
  });
}

// An engine trains no model with weights of 8-bit integers: the error comes before the first step.

#include "nn/quantize_weights.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "dist/train/engine/engine.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tests/dist/fsdp/rank_errors.h"
#include "tests/support/error_text.h"

using namespace tessera;
using training::Engine;
using training::TrainingConfig;

namespace {

struct Net : nn::Layer<Net> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 5, .out = 7});
  nn::Linear& second = add<nn::Linear>("second", {.in = 7, .out = 3});
  Variable forward(const Variable& x) { return second(first(x)); }
};

void make_engine(dist::World* world, dist::Strategy strategy, training::PrecisionMode precision) {
  Net net;
  nn::materialize(net, cpu(), 3);
  nn::quantize_weights(net.second);
  TrainingConfig config;
  config.train_batch_size = 4;
  config.strategy = strategy;
  config.precision = precision;
  Engine engine(net, {.config = config,
                      .optimizer =
                          [](const ParameterList& parameters) {
                            return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 1e-2});
                          },
                      .world = world});
}

constexpr const char* message = "nn::Linear 'second': it";

}  // namespace

TEST_CASE("engine: a model with weights of 8-bit integers is an error that names the layer") {
  for (const auto precision : {training::PrecisionMode::f32, training::PrecisionMode::bf16}) {
    CHECK_THROWS_WITH_AS(make_engine(nullptr, dist::Strategy::no_shard, precision),
                         doctest::Contains(message), ConfigError);
    for (const dist::Strategy strategy : dist::flat_strategies) {
      CAPTURE(std::string(dist::name_of(strategy)));
      const auto begin = std::chrono::steady_clock::now();
      for (const std::string& error :
           test::errors_of(2, [&](dist::World& world) { make_engine(&world, strategy, precision); }))
        CHECK_MESSAGE((contains(error, message) && contains(error, "8-bit integers")), error);
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(9));
    }
  }
}

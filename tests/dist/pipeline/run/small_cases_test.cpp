// Models of four layers with stages that lack something: parameters, gradients, values that the loss reads.

#include <doctest/doctest.h>

#include <algorithm>

#include "autograd/functions/elementwise/binary.h"
#include "models/gpt.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/embedding.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/pipeline/run/pipeline_matrix.h"
#include "tests/dist/pipeline/run/small_models.h"

using namespace tessera;
using nn::LayerValues;

TEST_CASE("pipeline, small cases: a chain, and stages without parameters") {
  test::require_as_on_one_device(test::four_layers(test::chain));
  test::require_as_on_one_device([] {
    auto net = std::make_unique<nn::Sequential>();
    net->push<nn::Linear>({.in = 4, .out = 4});
    net->push(nn::ReLU());
    net->push(nn::ReLU());
    net->push<nn::Linear>({.in = 4, .out = 4});
    test::StagedModel model{.layers = {.layers = net->to_layers(), .loss = test::squared_error()}};
    model.module = std::move(net);
    return model;
  });
}

TEST_CASE("pipeline, small cases: a value that the loss does not read") {
  test::require_as_on_one_device(test::four_layers([](test::FourLayers& net) {
    return std::vector<test::RunLayer>{[&](const LayerValues& v) {
                                         return LayerValues{net.a(v.at(0)), v.at(0)};
                                       },
                                       [&](const LayerValues& v) {
                                         return LayerValues{v.at(0), net.b(v.at(1))};
                                       },
                                       [&](const LayerValues& v) {
                                         return LayerValues{net.c(v.at(0)), v.at(1)};
                                       },
                                       [&](const LayerValues& v) {
                                         return LayerValues{net.d(v.at(0)), v.at(1)};
                                       }};
  }));
}

TEST_CASE("pipeline, small cases: a constant value, and one without elements or tensor, between stages") {
  test::require_as_on_one_device(test::four_layers([](test::FourLayers& net) {
    return std::vector<test::RunLayer>{
        [&](const LayerValues& v) {
          return LayerValues{Variable(), v.at(0), net.a(v.at(0)), Variable(Tensor::empty({0, 3}, f64))};
        },
        [&](const LayerValues& v) {
          require<ValueError>(!v.at(0).defined() && v.at(3).shape() == Shape{0, 3}, "other values");
          return LayerValues{v.at(1), net.b(v.at(2)), Variable()};
        },
        [&](const LayerValues& v) {
          return LayerValues{v.at(0), net.c(v.at(1))};
        },
        [&](const LayerValues& v) { return LayerValues{net.d(v.at(1)) + v.at(0)}; }};
  }));
}

TEST_CASE("pipeline, small cases: values that pass unchanged, twice, transposed") {
  test::require_as_on_one_device(test::four_layers([](test::FourLayers& net) {
    return std::vector<test::RunLayer>{
        [&](const LayerValues& v) {
          const Variable h = net.a(v.at(0));
          return LayerValues{h, h, h.transpose(0, 1)};
        },
        [&](const LayerValues& v) {
          return LayerValues{net.b(v.at(0)), v.at(1), v.at(1), v.at(2)};
        },
        [&](const LayerValues& v) {
          return LayerValues{net.c(v.at(0)) * v.at(2), v.at(1), v.at(3).transpose(0, 1)};
        },
        [&](const LayerValues& v) { return LayerValues{net.d(v.at(0)) * v.at(1) + v.at(2)}; }};
  }));
}

TEST_CASE("pipeline, small cases: integers between stages") {
  std::vector<dist::MicroBatch> batches = test::regression_batches(3);
  for (size_t m = 0; m < batches.size(); ++m)
    batches[m].inputs = {Tensor::from<int64_t>({static_cast<int64_t>(m), 2})};
  struct Tables : nn::Layer<Tables> {
    nn::Embedding& first = add<nn::Embedding>("first", {.count = 5, .width = 4});
    nn::Linear& linear = add<nn::Linear>("linear", {.in = 4, .out = 4});
    nn::Embedding& second = add<nn::Embedding>("second", {.count = 5, .width = 4});
    Variable forward(const Tensor& ids) { return linear(first(ids)) + second(ids); }
  };
  test::require_as_on_one_device(
      [] {
        auto net = std::make_unique<Tables>();
        Tables& t = *net;
        test::StagedModel model{.layers = {.loss = test::squared_error()}};
        model.layers.layers = {test::values_layer("ids", {}, [](const LayerValues& v) { return v; }),
                               test::values_layer("first", {&t.first},
                                                  [&](const LayerValues& v) {
                                                    return LayerValues{t.first(v.at(0).value()), v.at(0)};
                                                  }),
                               test::values_layer("linear", {&t.linear},
                                                  [&](const LayerValues& v) {
                                                    return LayerValues{t.linear(v.at(0)), v.at(1)};
                                                  }),
                               test::values_layer("second", {&t.second}, [&](const LayerValues& v) {
                                 return LayerValues{v.at(0) + t.second(v.at(1).value())};
                               })};
        model.module = std::move(net);
        return model;
      },
      batches);
}

TEST_CASE("pipeline, small cases: frozen stages: one, the first half, the last half, all") {
  for (const std::string names : {"b", "ab", "cd", "bcd", "abcd"})
    test::require_as_on_one_device(test::frozen_chain(names));
}

TEST_CASE("pipeline, small cases: a graph that is cut in the middle, and a loss without a graph") {
  for (const size_t place : {0, 1, 2, 3})
    test::require_as_on_one_device(test::four_layers([place](test::FourLayers& net) {
      std::vector<test::RunLayer> runs = test::chain(net);
      runs[place] = [run = runs[place]](const LayerValues& v) { return LayerValues{run(v).at(0).detach()}; };
      return runs;
    }));
}

TEST_CASE("pipeline, small cases: weights tied over three stages and four, frozen, without some gradients") {
  test::require_as_on_one_device(test::tied_layers({0, 1, 3}));
  test::require_as_on_one_device(test::tied_layers({0, 1, 2, 3}));
  test::require_as_on_one_device(test::tied_layers({0, 2, 3}, {}, true));
  test::require_as_on_one_device(test::tied_layers({0, 3}, {3}));
  test::require_as_on_one_device(test::tied_layers({0, 2}, {0}));
  test::require_as_on_one_device(test::tied_layers({0, 3}, {0, 3}));
}

TEST_CASE("pipeline, small cases: micro-batches without weight") {
  const auto weight = [](const std::vector<Tensor>& targets) {
    return targets.at(0).data<double>()[0] > 0 ? 1.5 : 0.0;
  };
  const auto batches = test::regression_batches(4);
  REQUIRE(weight(batches[0].targets) > 0);
  REQUIRE(weight(batches[2].targets) == 0);
  test::require_as_on_one_device(test::four_layers(test::chain), batches, weight);
  test::require_as_on_one_device(test::four_layers(test::chain), batches,
                                 [](const std::vector<Tensor>&) { return 0.0; });
}

TEST_CASE("pipeline, small cases: a micro-batch with ignored targets alone") {
  const auto make = [] {
    auto gpt = std::make_unique<models::Gpt>(models::GptOptions{
        .vocabulary = 11, .block_size = 6, .layers = 3, .heads = 2, .width = 8, .bias = true});
    test::StagedModel model{.layers = gpt->to_layered_model()};
    model.module = std::move(gpt);
    return model;
  };
  std::vector<dist::MicroBatch> batches = test::language_batches(3);
  for (int64_t i = 0; i < batches[1].targets[0].numel(); ++i) batches[1].targets[0].data<int64_t>()[i] = -100;
  test::require_as_on_one_device(make, batches, [](const std::vector<Tensor>& targets) {
    const int64_t* ids = targets.at(0).data<int64_t>();
    return static_cast<double>(
        std::count_if(ids, ids + targets[0].numel(), [](int64_t id) { return id >= 0; }));
  });
}

TEST_CASE("pipeline, small cases: a loss with a parameter, and of shape (1)") {
  test::require_as_on_one_device([] {
    test::StagedModel model = test::four_layers(test::chain)();
    const nn::Linear* last = &model.module->as<test::FourLayers>()->d;
    model.layers.layers[3] = test::values_layer("none", {}, [](const LayerValues& v) { return v; });
    model.layers.loss = {.modules = {last},
                         .run = [last](const LayerValues& v, const std::vector<Tensor>& targets) {
                           return test::squared_error().run({(*last)(v.at(0))}, targets).view({1});
                         }};
    return model;
  });
}

TEST_CASE("pipeline, small cases: the norm has the sum over stages of a tied weight, not a stage's squares") {
  test::require_no_problems(2, [](dist::World& world) {
    return test::compare_steps(world, {.mesh = dist::pipeline_mesh(world, 2)}, test::tied_layers({0, 3}),
                               test::regression_batches(2), {.steps = 1});
  });
}

TEST_CASE("pipeline, small cases: gradients are scaled") {
  test::require_no_problems(2, [](dist::World& world) {
    return test::compare_steps(world, {.mesh = dist::pipeline_mesh(world, 2)}, test::tied_layers({0, 3}),
                               test::regression_batches(2), {.scale = 1024});
  });
}

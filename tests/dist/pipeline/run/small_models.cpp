#include "tests/dist/pipeline/run/small_models.h"

#include <algorithm>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/shaping.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "tests/dist/fsdp/on_threads.h"

namespace tessera::test {

using nn::LayerValues;

MakeModel four_layers(std::function<std::vector<RunLayer>(FourLayers&)> runs,
                      const std::function<void(FourLayers&)>& change) {
  return [=] {
    auto net = std::make_unique<FourLayers>();
    if (change) change(*net);
    StagedModel model{.layers = {.loss = squared_error()}};
    const std::vector<const nn::Module*> modules{&net->a, &net->b, &net->c, &net->d};
    const std::vector<RunLayer> list = runs(*net);
    for (size_t i = 0; i < list.size(); ++i)
      model.layers.layers.push_back(values_layer(text("layer ", i), {modules.at(i)}, list[i]));
    model.module = std::move(net);
    return model;
  };
}

std::vector<RunLayer> chain(FourLayers& net) {
  std::vector<RunLayer> runs;
  for (nn::Linear* layer : {&net.a, &net.b, &net.c, &net.d})
    runs.push_back([layer](const LayerValues& v) { return LayerValues{(*layer)(v.at(0))}; });
  return runs;
}

void require_as_on_one_device(const MakeModel& make, const std::vector<dist::MicroBatch>& batches,
                              const std::function<double(const std::vector<Tensor>&)>& weight) {
  for (const int ranks : {2, 4})
    require_no_problems(ranks,
                        [&](dist::World& world) { return compare_schedules(world, make, batches, weight); });
}

MakeModel frozen_chain(const std::string& names) {
  return four_layers(chain, [names](FourLayers& net) {
    for (const char name : names) net.at(std::string(1, name)).set_requires_grad(false);
  });
}

MakeModel tied_layers(const std::vector<size_t>& places, const std::vector<size_t>& detached,
                      bool is_frozen) {
  return [=] {
    auto net = std::make_unique<FourLayers>();
    if (is_frozen) net->a.set_requires_grad(false);
    StagedModel model{.layers = {.loss = squared_error()}};
    const std::vector<nn::Linear*> own{&net->a, &net->b, &net->c, &net->d};
    for (size_t i = 0; i < own.size(); ++i) {
      const bool is_tied = std::find(places.begin(), places.end(), i) != places.end();
      const bool is_detached = std::find(detached.begin(), detached.end(), i) != detached.end();
      std::vector<const nn::Module*> modules{own[i]};
      if (is_tied && i > 0) modules.push_back(own[0]);
      model.layers.layers.push_back(
          values_layer(text("layer ", i), modules, [=, first = own[0], layer = own[i]](const LayerValues& v) {
            Variable y = i > 0 || !is_tied ? (*layer)(v.at(0)) : v.at(0);
            if (is_tied) y = is_detached ? y + (*first)(v.at(0)).detach() : y + (*first)(y);
            return LayerValues{y};
          }));
    }
    model.module = std::move(net);
    return model;
  };
}

MakeModel half_without_parameters(bool is_first) {
  return [=] {
    auto net = std::make_unique<nn::Sequential>();
    for (const bool has_parameters : {!is_first, is_first})
      for (int i = 0; i < 2; ++i) {
        if (has_parameters)
          net->push<nn::Linear>({.in = 4, .out = 4});
        else
          net->push(nn::ReLU());
      }
    StagedModel model{.layers = {.layers = net->to_layers(), .loss = squared_error()}};
    model.module = std::move(net);
    return model;
  };
}

namespace {

/// A parameter of the model's own, which the first layer returns, and a view of another.
struct Queries : nn::Layer<Queries> {
  Variable& queries = parameter("queries", {2, 4}, init::normal(1));
  Variable& table = parameter("table", {3, 4}, init::normal(1));
  nn::Linear& linear = add<nn::Linear>("linear", {.in = 4, .out = 4});
  Variable forward(const Variable& x) { return linear(x + queries) * table.narrow(0, 1, 2); }
};

}  // namespace

StagedModel queries() {
  auto net = std::make_unique<Queries>();
  Queries& q = *net;
  const auto pass = [](const LayerValues& v) { return v; };
  StagedModel model{.layers = {.loss = squared_error()}};
  // Its own parameters are named by the module itself, which also holds the linear layer: tied, in effect.
  model.layers.layers = {
      values_layer("queries", {&q},
                   [&](const LayerValues& v) {
                     return LayerValues{v.at(0), q.queries, q.table.narrow(0, 1, 2)};
                   }),
      values_layer("pass", {}, pass),
      values_layer("linear", {&q.linear},
                   [&](const LayerValues& v) {
                     return LayerValues{q.linear(v.at(0) + v.at(1)), v.at(2)};
                   }),
      values_layer("product", {}, [](const LayerValues& v) { return LayerValues{v.at(0) * v.at(1)}; })};
  model.module = std::move(net);
  return model;
}

}  // namespace tessera::test

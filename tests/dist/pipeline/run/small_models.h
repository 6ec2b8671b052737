#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/layers/linear.h"
#include "tests/dist/pipeline/run/step_comparison.h"

/// Models of four layers, (2, 4) values each, for the corner cases of stages.
namespace tessera::test {

/// Four linear layers, of which cases use some.
struct FourLayers : nn::Layer<FourLayers> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 4, .out = 4});
  nn::Linear& b = add<nn::Linear>("b", {.in = 4, .out = 4});
  nn::Linear& c = add<nn::Linear>("c", {.in = 4, .out = 4});
  nn::Linear& d = add<nn::Linear>("d", {.in = 4, .out = 4});
  Variable forward(const Variable& x) { return d(c(b(a(x)))); }
};

/// What a layer of a list does.
using RunLayer = std::function<nn::LayerValues(const nn::LayerValues&)>;
/// A model of the layers that `runs` makes for a FourLayers, each of which reads one layer of it.
MakeModel four_layers(std::function<std::vector<RunLayer>(FourLayers&)> runs,
                      const std::function<void(FourLayers&)>& change = {});
/// Its layers, one after another.
std::vector<RunLayer> chain(FourLayers& net);
/// The chain with the layers of these names, such as "ab", frozen.
MakeModel frozen_chain(const std::string& names);
/// One linear layer, tied over `places` of the list a, b, c, d; at `detached` of them the graph ends behind
/// it.
MakeModel tied_layers(const std::vector<size_t>& places, const std::vector<size_t>& detached = {},
                      bool is_frozen = false);
/// Two layers without parameters, at the beginning or the end: a stage of them alone.
MakeModel half_without_parameters(bool is_first);
/// Two parameters of the model itself, which the first layer returns, one of them as a view; and a layer
/// `linear`, tied over two stages.
StagedModel queries();

/// `compare_schedules` on 2 and 4 ranks, as a check.
void require_as_on_one_device(const MakeModel& make,
                              const std::vector<dist::MicroBatch>& batches = regression_batches(3),
                              const std::function<double(const std::vector<Tensor>&)>& weight = {});

}  // namespace tessera::test

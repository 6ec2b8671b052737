#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/optimizer_state.h"
#include "optim/parameter_groups.h"
#include "optim/rules/adam.h"

using namespace tessera;

namespace {

/// A model in which encoder and decoder share a weight.
struct Encoder : nn::Layer<Encoder> {
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 3, .out = 3});
  Variable forward(const Variable& x) { return fc(x); }
};
struct Decoder : nn::Layer<Decoder> {
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 3, .out = 3});
  Variable& tied;
  explicit Decoder(const Variable& shared) : tied(share_parameter("tied", shared)) {}
  Variable forward(const Variable& x) { return fc(x); }
};
struct Model : nn::Layer<Model> {
  Encoder& encoder = add<Encoder>("encoder");
  Decoder& decoder = add<Decoder>("decoder", encoder.fc.weight);
  Variable forward(const Variable& x) { return decoder(encoder(x)); }
};

std::vector<std::string> names(const ParameterList& list) {
  std::vector<std::string> all;
  for (const NamedParameter& parameter : list) all.push_back(parameter.name);
  return all;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("groups by submodule: lists have full names, state dicts relative ones") {
  Model model;
  nn::materialize(model, cpu(), 1);
  const Names all{"encoder.fc.weight", "encoder.fc.bias", "decoder.fc.weight", "decoder.fc.bias"};
  CHECK(names(model.parameters()) == all);
  CHECK(names(model.encoder.parameters()) == Names{"encoder.fc.weight", "encoder.fc.bias"});
  CHECK(names(model.encoder.fc.parameters()) == Names{"encoder.fc.weight", "encoder.fc.bias"});
  // A shared parameter has one name in the whole model, also in the lists of its other owners.
  CHECK(names(model.decoder.parameters()) ==
        Names{"encoder.fc.weight", "decoder.fc.weight", "decoder.fc.bias"});
  CHECK(model.encoder.state_dict()[0].name == "fc.weight");
  CHECK(model.decoder.state_dict()[0].name == "tied");
}

TEST_CASE(
    "groups by submodule: an optimizer over submodules has the same state as one over the whole model") {
  Model model;
  nn::materialize(model, cpu(), 1);
  optim::AdamW whole(model.parameters(), {.lr = 0.1});
  optim::AdamW groups(
      {{model.encoder.parameters(), {.lr = 0.1}}, {model.decoder.fc.parameters(), {.lr = 0.01}}});
  for (const NamedParameter& parameter : model.parameters())
    parameter.variable.set_grad(Variable(Tensor::scalar(1.0f).expand(parameter.variable.shape()).clone()));
  groups.step();
  const optim::OptimizerState saved = groups.state();
  CHECK(saved.tensors[0].name == "exp_avg/encoder.fc.weight");
  whole.load_state({saved.optimizer, saved.tensors, {}});
  CHECK(whole.state().tensors.size() == saved.tensors.size());
}

TEST_CASE("groups of two models: equal names are refused, with a hint to ParameterList::prefixed") {
  Encoder one, other;
  for (Encoder* model : {&one, &other}) nn::materialize(*model, cpu(), 1);
  const auto both = [](const ParameterList& a, const ParameterList& b) {
    optim::AdamW adam({{a, {.lr = 0.1}}, {b, {.lr = 0.1}}});
    return names(adam.parameters());
  };
  CHECK_THROWS_WITH_AS(both(one.parameters(), other.parameters()),
                       doctest::Contains("ParameterList::prefixed"), ValueError);
  CHECK(both(one.parameters().prefixed("generator"), other.parameters().prefixed("critic")) ==
        Names{"generator.fc.weight", "generator.fc.bias", "critic.fc.weight", "critic.fc.bias"});
}

TEST_CASE("groups by pattern: the first pattern that names a parameter has it, the others form a group") {
  Model model;
  nn::materialize(model, cpu(), 1);
  using optim::AdamWOptions;
  const auto groups = optim::pattern_groups(
      model.parameters(), {{"*.bias", {.lr = 1e-3, .weight_decay = 0}}, {"encoder", {.lr = 1e-5}}},
      AdamWOptions{.lr = 1e-4});
  CHECK(groups.size() == 3);
  CHECK(names(groups[0].parameters) == Names{"encoder.fc.bias", "decoder.fc.bias"});
  CHECK(names(groups[1].parameters) == Names{"encoder.fc.weight"});
  CHECK(names(groups[2].parameters) == Names{"decoder.fc.weight"});
  CHECK(groups[0].options.weight_decay == 0);
  CHECK(groups[2].options.lr == 1e-4);
  optim::AdamW adam(groups);
  CHECK(adam.base_lr(1) == 1e-5);
  const auto first_of = [&](const Names& patterns) {
    return names(optim::split_by_pattern(model.parameters(), patterns)[0]);
  };
  CHECK(first_of({"*coder.f*"}).size() == 4);
  CHECK(first_of({"decoder.fc.weight"}) == Names{"decoder.fc.weight"});
  CHECK_THROWS_WITH_AS(first_of({"enc"}),  // not the name of a module
                       doctest::Contains("'enc' names no parameter that an earlier pattern leaves; there are "
                                         "encoder.fc.weight, encoder.fc.bias"),
                       ConfigError);
  CHECK_THROWS_AS(first_of({"encoder", "encoder.fc"}), ConfigError);
  CHECK(optim::pattern_groups(model.parameters(), {{"*", {}}}, AdamWOptions{}).size() == 1);
}

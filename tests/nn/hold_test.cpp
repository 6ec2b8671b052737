#include "nn/sequence/hold.h"

#include <doctest/doctest.h>

#include <cstring>

#include "nn/clone.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "nn/save.h"
#include "optim/clip.h"
#include "tensor/memory/account.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;

namespace {

/// Three layers, the first and the last of which have one weight, and a buffer.
struct Net : nn::Layer<Net> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 2, .out = 2});
  nn::Linear& middle = add<nn::Linear>("middle", {.in = 2, .out = 2});
  Variable& tied = share_parameter("tied", first.weight);
  Variable& scale = buffer("scale", {2}, init::constant(0.5));
  Variable& scratch = buffer("scratch", {2}, init::constant(0), f32, /*persistent=*/false);
  Variable forward(const Variable& x) { return middle(first(x)); }
};

using Names = std::vector<std::string>;
std::set<std::string> names_of(const nn::StateDict& state) {
  std::set<std::string> names;
  for (const NamedTensor& entry : state) names.insert(entry.name);
  return names;
}
Names names_of(const ParameterList& parameters) {
  Names names;
  for (const NamedParameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.nbytes())) == 0;
}

/// Leaves `middle` to another rank.
void hold_first(Net& net) {
  nn::ParameterSet held = nn::variables_below(net.first);
  held.insert(net.scale.impl().get());
  nn::hold_only(net, held);
}

}  // namespace

TEST_CASE(
    "hold_only: lists, state dicts and materialize know the held ones, with values of the whole model") {
  Net whole, stage;
  nn::materialize(whole, cpu(), 3);
  hold_first(stage);
  nn::materialize(stage, cpu(), 3);
  CHECK(names_of(stage.parameters()) == Names{"tied", "first.bias"});
  CHECK(names_of(stage.state_dict()) == std::set<std::string>{"tied", "scale", "first.bias"});
  CHECK(std::ssize(stage.buffers()) == 1);
  CHECK(std::ssize(stage.named_parameters()) == 2);
  CHECK(same_bits(stage.tied.value(), whole.tied.value()));
  CHECK(same_bits(stage.first.bias->value(), whole.first.bias->value()));
  CHECK(stage.middle.weight.value().is_meta());
  CHECK(stage.middle.weight.shape() == Shape{2, 2});
  CHECK(nn::names_held_elsewhere(stage) == std::set<std::string>{"middle.weight", "middle.bias", "scratch"});
  CHECK(nn::names_held_elsewhere(stage.middle) == std::set<std::string>{"weight", "bias"});
  CHECK(nn::names_held_elsewhere(whole).empty());
  CHECK_THROWS(stage(Variable(Tensor::zeros({1, 2}, f32))));
}

TEST_CASE("hold_only: values and gradients of the others are given up") {
  Net net;
  nn::materialize(net, cpu(), 3);
  net.middle.weight.set_grad(Variable(Tensor::zeros({2, 2}, f32)));
  const int64_t before = current_account()->total().current;
  hold_first(net);
  // Weight, bias and the gradient of the middle layer, and the buffer of two elements.
  CHECK(before - current_account()->total().current == 4 * (4 + 2 + 4 + 2));
  CHECK(!net.middle.weight.grad().defined());
  CHECK(!net.tied.value().is_meta());
}

TEST_CASE("hold_only: a stage loads its own state and that of the whole model, from memory and from a file") {
  const TemporaryFolder folder;
  Net whole;
  nn::materialize(whole, cpu(), 3);
  const std::string path = folder / "whole.safetensors", part = folder / "stage.safetensors";
  nn::save(whole, path);
  for (const bool strict : {true, false}) {
    Net from_state, from_file;
    for (Net* stage : {&from_state, &from_file}) {
      hold_first(*stage);
      nn::materialize(*stage, cpu(), 4);
      CHECK(!same_bits(stage->tied.value(), whole.tied.value()));
    }
    const nn::LoadResult a = from_state.load_state_dict(whole.state_dict(), strict),
                         b = nn::load(from_file, path, strict);
    CHECK(a.missing_keys.empty());
    CHECK(a.unexpected_keys.empty());
    CHECK(b.missing_keys.empty());
    CHECK(b.unexpected_keys.empty());
    for (Net* stage : {&from_state, &from_file}) {
      CHECK(same_bits(stage->tied.value(), whole.tied.value()));
      CHECK(same_bits(stage->first.bias->value(), whole.first.bias->value()));
      CHECK(stage->middle.weight.value().is_meta());
    }
    nn::save(from_file, part);
    CHECK(names_of(nn::read_state_dict(part)) == std::set<std::string>{"tied", "scale", "first.bias"});
    Net again;
    hold_first(again);
    nn::materialize(again, cpu(), 4);
    nn::load(again, part, strict);
    CHECK(same_bits(again.tied.value(), whole.tied.value()));
  }
}

TEST_CASE("hold_only: names of no rank are unexpected in a stage too, and its own may not be missing") {
  Net whole, stage;
  nn::materialize(whole, cpu(), 3);
  hold_first(stage);
  nn::materialize(stage, cpu(), 4);
  nn::StateDict state = whole.state_dict();
  state.push_back({"head.weight", Tensor::zeros({2}, f32)});
  CHECK(contains(message_of<ValueError>([&] { stage.load_state_dict(state); }), "unexpected 'head.weight'"));
  CHECK(stage.load_state_dict(state, false).unexpected_keys == Names{"head.weight"});
  std::erase_if(state, [](const NamedTensor& entry) { return entry.name == "tied"; });
  state.pop_back();
  CHECK(contains(message_of<ValueError>([&] { stage.load_state_dict(state); }), "'tied' (2, 2) is missing"));
}

TEST_CASE("hold_only: clones, dtypes, modes and freezing of a stage") {
  Net net;
  hold_first(net);
  nn::materialize(net, cpu(), 3);
  const Net copy = nn::clone(net);
  CHECK(names_of(copy.parameters()) == names_of(net.parameters()));
  CHECK(same_bits(copy.tied.value(), net.tied.value()));
  CHECK(copy.middle.weight.value().is_meta());
  net.to(f64);
  CHECK(net.tied.dtype() == f64);
  net.to(cpu());
  net.eval().set_requires_grad(false);
  CHECK(!net.middle.is_training());
  CHECK(!net.tied.requires_grad());
  net.set_requires_grad(true);
  net.to(f32);
  nn::use_mixed_precision(net, bf16);
  CHECK(net.tied.dtype() == bf16);
  CHECK(net.middle.weight.dtype() == f32);
  CHECK(net.first(Variable(Tensor::zeros({1, 2}, bf16))).dtype() == bf16);
}

TEST_CASE("hold_only: may be narrowed, and refuses other models' parameters and unsuitable ones") {
  Net net, other;
  CHECK(contains(message_of<ConfigError>([&] { nn::hold_only(net, nn::variables_below(other)); }),
                 "expected parameters and buffers below Net '', got another module's"));
  CHECK(std::ssize(net.parameters()) == 4);
  nn::require_whole(net);
  hold_first(net);
  CHECK(contains(message_of<ConfigError>([&] { nn::require_whole(net); }), "the model is cut already"));
  nn::hold_only(net, {net.tied.impl().get()});
  CHECK(names_of(net.parameters()) == Names{"tied"});
  CHECK(contains(message_of<ConfigError>([&] { nn::hold_only(net, nn::variables_below(other)); }),
                 "got another module's"));

  Net mixed;
  nn::materialize(mixed, cpu(), 3);
  nn::use_mixed_precision(mixed, bf16);
  CHECK(contains(message_of<ConfigError>([&] { hold_first(mixed); }), "is in mixed precision"));
  CHECK(std::ssize(mixed.parameters()) == 4);
}

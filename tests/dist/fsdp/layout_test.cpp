#include <doctest/doctest.h>

#include "dist/fsdp/assignment.h"
#include "dist/fsdp/layout.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "tensor/error.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

/// A model with a weight that it shares with its layer `first`.
struct Tied : nn::Layer<Tied> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 3, .out = 3, .bias = false});
  Variable& second = share_parameter("second", first.weight);
  Variable forward(const Variable& x) { return first(x); }
};

struct Model : nn::Layer<Model> {
  nn::ModuleList<nn::Linear>& layers = add<nn::ModuleList<nn::Linear>>("layers");
  nn::Linear& head = add<nn::Linear>("head", {.in = 4, .out = 2});
  Model() {
    for (int i = 0; i < 3; ++i) layers.push({.in = 4, .out = 4});
  }
  Variable forward(const Variable& x) { return head(layers(x)); }
};

/// Two branches that use the same weight.
struct Branch : nn::Layer<Branch> {
  Variable& weight;
  explicit Branch(const Variable& shared) : weight(share_parameter("weight", shared)) {}
  Variable forward(const Variable& x) { return x; }
};
struct Forked : nn::Layer<Forked> {
  struct Pair : nn::Layer<Pair> {
    nn::Linear& own = add<nn::Linear>("own", {.in = 2, .out = 2, .bias = false});
    Branch& left = add<Branch>("left", own.weight);
    Branch& right = add<Branch>("right", own.weight);
    Variable forward(const Variable& x) { return left(right(x)); }
  };
  Pair& pair = add<Pair>("pair");
  nn::Linear& other = add<nn::Linear>("other", {.in = 2, .out = 2, .bias = false});
  Variable forward(const Variable& x) { return other(pair(x)); }
};

std::vector<std::string> names_of(const std::vector<UnitPlan>& plans) {
  std::vector<std::string> names;
  for (const UnitPlan& plan : plans) {
    std::string line = plan.name + ":";
    for (const UnitParameter& parameter : plan.parameters) line += " " + parameter.name;
    names.push_back(line);
  }
  return names;
}

}  // namespace

TEST_CASE("flat layout: five elements over four ranks are shards of 2, 2, 1 and 0") {
  const std::vector<int64_t> sizes{5};
  const FlatLayout layout(sizes, 4, 1);
  CHECK(layout.shard_numel() == 2);
  CHECK(layout.numel() == 8);
  std::vector<int64_t> held;
  for (int shard = 0; shard < 4; ++shard) held.push_back(layout.range(0, shard).numel());
  CHECK(held == std::vector<int64_t>{2, 2, 1, 0});
  REQUIRE(layout.padding().size() == 1);
  CHECK(layout.padding()[0].begin == 5);
  CHECK(layout.padding()[0].end == 8);
}

TEST_CASE("flat layout: parameters and shards begin at multiples of the alignment") {
  const std::vector<int64_t> sizes{5, 17, 1};
  const FlatLayout layout(sizes, 3, 16);
  CHECK(layout.offset(0) == 0);
  CHECK(layout.offset(1) == 16);
  CHECK(layout.offset(2) == 48);
  CHECK(layout.shard_numel() == 32);  // 49 over 3 is 17, rounded up
  CHECK(layout.numel() == 96);
  CHECK(layout.range(1, 0).numel() == 16);
  CHECK(layout.range(1, 1).begin == 16);
  CHECK(layout.range(1, 1).end == 17);
  CHECK(layout.range_offset(1, 1) == 0);
  CHECK(layout.range_offset(2, 1) == 16);
  CHECK(layout.range(2, 2).numel() == 0);
}

TEST_CASE("flat layout: every element of every parameter is in exactly one shard, in order") {
  const std::vector<int64_t> sizes{7, 0, 3, 40, 1};
  for (const int shards : {1, 2, 3, 5, 8})
    for (const int64_t alignment : {1, 4, 16}) {
      const FlatLayout layout(sizes, shards, alignment);
      int64_t padding = 0;
      for (const auto& gap : layout.padding()) padding += gap.numel();
      CHECK(padding + 51 == layout.numel());
      for (size_t i = 0; i < sizes.size(); ++i) {
        int64_t next = 0;
        for (int shard = 0; shard < shards; ++shard) {
          const FlatLayout::Range range = layout.range(i, shard);
          if (range.numel() == 0) continue;
          CHECK(range.begin == next);
          CHECK(shard * layout.shard_numel() + layout.range_offset(i, shard) ==
                layout.offset(i) + range.begin);
          next = range.end;
        }
        CHECK(next == sizes[i]);
      }
    }
}

TEST_CASE("units: each holds the parameters below it and below no other unit") {
  Model model;
  CHECK(names_of(assign_parameters(model, every<nn::Linear>())) ==
        std::vector<std::string>{"root:", "layers.0: layers.0.weight layers.0.bias",
                                 "layers.1: layers.1.weight layers.1.bias",
                                 "layers.2: layers.2.weight layers.2.bias", "head: head.weight head.bias"});
  CHECK(names_of(assign_parameters(model, every_block())).size() == 4);
  CHECK(names_of(assign_parameters(model, units_named({"head"})))[1] == "head: head.weight head.bias");
  CHECK(names_of(assign_parameters(model, {})).size() == 1);
}

TEST_CASE("units by size: the smallest modules that are large enough") {
  Model model;  // three layers of 20 parameters, a head of 10
  CHECK(names_of(assign_parameters(model, min_num_params(20))).size() == 4);
  CHECK(names_of(assign_parameters(model, min_num_params(60))).size() == 1);  // a list is not chosen
  CHECK(names_of(assign_parameters(model, min_num_params(1000))).size() == 1);
  CHECK_THROWS_AS(min_num_params(0), ConfigError);
}

TEST_CASE("units: a parameter that several units use belongs to their lowest common ancestor") {
  Forked model;
  const std::vector<std::string> names = names_of(
      assign_parameters(model, units_named({"pair", "pair.own", "pair.left", "pair.right", "other"})));
  CHECK(names == std::vector<std::string>{"root:", "pair: pair.own.weight",
                                          "pair.own:", "pair.left:", "pair.right:", "other: other.weight"});
  Tied tied;
  CHECK(names_of(assign_parameters(tied, every<nn::Linear>())) ==
        std::vector<std::string>{"root: second", "first:"});
}

TEST_CASE("units: ignored modules keep their parameters, and must be below the root") {
  Model model;
  std::vector<nn::Module*> ignored{&model.head};
  CHECK(names_of(assign_parameters(model, every<nn::Linear>(), ignored)).size() == 4);
  Model other;
  std::vector<nn::Module*> of_other_model{&other.head};
  CHECK_THROWS_AS(assign_parameters(model, {}, of_other_model), ValueError);
}

TEST_CASE("units by name: an unknown path is an error that names it") {
  Model model;
  CHECK_THROWS_WITH_AS(assign_parameters(model, units_named({"layers.7"})),
                       doctest::Contains("no module '7'"), ValueError);
}

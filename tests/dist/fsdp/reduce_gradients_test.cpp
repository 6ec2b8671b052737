// Sharding::reduce_gradients: a step that ends without a backward outside of Accumulation.

#include <cstring>

#include "autograd/functions/reduction.h"
#include "dist/fsdp/shard.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "tensor/ops/creation/creation.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"

using namespace tessera;
using dist::Strategy;

namespace {

constexpr models::GptOptions gpt_options{
    .vocabulary = 11, .block_size = 4, .layers = 3, .heads = 2, .width = 8, .bias = true};

/// How the micro-batches of a step are run.
struct Way {
  bool communicates = false;     ///< after each micro-batch
  bool ends_by_call = false;     ///< all of them in Accumulation, and then reduce_gradients
  bool last_is_partial = false;  ///< the last backward reaches some parameters alone
};

/// Two steps of three micro-batches without an optimizer: the gradients of the second are added.
std::vector<Tensor> gradients(dist::World& world, const dist::Mesh& mesh, Strategy strategy, const Way& way) {
  models::Gpt gpt(gpt_options);
  dist::Sharding& sharding =
      dist::shard(gpt, {.mesh = mesh, .strategy = strategy, .units = dist::every<models::Block>()});
  nn::materialize(gpt, cpu(), 1);
  for (int step = 0; step < 2; ++step) {
    for (int m = 0; m < 3; ++m) {
      const bool is_last = m == 2;
      std::optional<dist::Accumulation> scope;
      if (!is_last || way.ends_by_call) scope.emplace(sharding, way.communicates);
      const Tensor ids = Tensor::from<int64_t>({1, 4, world.rank(), m, 10, 3, step, 7}, {2, 4});
      if (is_last && way.last_is_partial)
        sum(gpt.blocks[0](Variable(ops::full({2, 4, 8}, 0.1 * (1 + world.rank()), f32)))).backward();
      else
        gpt.loss(ids, ids).backward();
    }
    if (way.ends_by_call) sharding.reduce_gradients();
  }
  std::vector<Tensor> found;
  for (const NamedParameter& parameter : gpt.parameters()) {
    const Variable gradient = parameter.variable.grad();
    found.push_back(gradient.defined() ? gradient.value().clone() : Tensor());
  }
  return found;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.nbytes())) == 0;
}

std::vector<std::string> compare(dist::World& world, const dist::Mesh& mesh, Strategy strategy) {
  std::vector<std::string> problems;
  for (const bool communicates : {false, true})
    for (const bool partial : {false, true}) {
      const auto expected = gradients(world, mesh, strategy, {communicates, false, partial}),
                 found = gradients(world, mesh, strategy, {communicates, true, partial});
      for (size_t i = 0; i < found.size(); ++i)
        if (!expected[i].defined() || !same_bits(found[i], expected[i]))
          problems.push_back(text(strategy, communicates ? ", with communication" : "",
                                  partial ? ", with a partial backward" : "", ": gradient ", i,
                                  expected[i].defined() ? " has other bits" : " is missing"));
    }
  return problems;
}

}  // namespace

TEST_CASE("reduce_gradients: the bits of a step that ends with a backward, for every strategy") {
  test::require_no_problems(3, [](dist::World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : dist::flat_strategies)
      for (std::string& problem : compare(world, dist::Mesh(world), strategy))
        problems.push_back(std::move(problem));
    return problems;
  });
  test::require_no_problems(4, [](dist::World& world) {
    std::vector<std::string> problems;
    const dist::Mesh mesh(world, {{"replica", 2}, {"shard", 2}});
    for (const Strategy strategy : {Strategy::no_shard, Strategy::hybrid_shard, Strategy::hybrid_shard_zero2})
      for (std::string& problem : compare(world, mesh, strategy)) problems.push_back(std::move(problem));
    return problems;
  });
}

TEST_CASE("reduce_gradients: nothing to reduce, and again, changes nothing") {
  test::require_no_problems(2, [](dist::World& world) {
    std::vector<std::string> problems;
    for (const Strategy strategy : dist::flat_strategies) {
      models::Gpt gpt(gpt_options);
      dist::Sharding& sharding = dist::shard(
          gpt, {.mesh = dist::Mesh(world), .strategy = strategy, .units = dist::every<models::Block>()});
      sharding.reduce_gradients();  // without values
      nn::materialize(gpt, cpu(), 1);
      sharding.reduce_gradients();
      for (const NamedParameter& parameter : gpt.parameters())
        if (parameter.variable.grad().defined())
          problems.push_back(text(strategy, ": a gradient of '", parameter.name, "' without a backward"));
      const Tensor ids = Tensor::from<int64_t>({1, 4, 9, world.rank()}, {1, 4});
      gpt.loss(ids, ids).backward();
      std::vector<Tensor> before;
      for (const NamedParameter& parameter : gpt.parameters())
        before.push_back(parameter.variable.grad().value().clone());
      sharding.reduce_gradients();
      size_t i = 0;
      for (const NamedParameter& parameter : gpt.parameters())
        if (!same_bits(parameter.variable.grad().value(), before[i++]))
          problems.push_back(text(strategy, ": the gradient of '", parameter.name, "' has changed"));
    }
    return problems;
  });
}

TEST_CASE("reduce_gradients: within Accumulation, a call, a backward or a summon it is an error") {
  test::require_no_problems(2, [](dist::World& world) {
    std::vector<std::string> problems;
    models::Gpt gpt(gpt_options);
    dist::Sharding& sharding =
        dist::shard(gpt, {.mesh = dist::Mesh(world), .units = dist::every<models::Block>()});
    nn::materialize(gpt, cpu(), 1);
    const auto expect = [&](const std::string& expected) {
      const std::string found = message_of<ConfigError>([&] { sharding.reduce_gradients(); });
      if (!contains(found, expected)) problems.push_back(found);
    };
    {
      const dist::NoSync accumulation(sharding);
      expect("outside of Accumulation");
    }
    {
      const dist::SummonFullParams full(sharding);
      expect("SummonFullParams is open");
    }
    int calls = 0;
    gpt.blocks[1].register_forward_hook([&](nn::Module&, const nn::CallVariables&, const nn::CallVariables&) {
      ++calls;
      expect("expected a call between backwards");
    });
    gpt.blocks[1].register_full_backward_pre_hook([&](nn::Module&, std::vector<Variable>&) {
      ++calls;
      expect("expected a call between backwards");
    });
    const Tensor ids = Tensor::from<int64_t>({1, 4, 9, 0}, {1, 4});
    gpt.loss(ids, ids).backward();
    if (calls != 2) problems.push_back(text(calls, " calls of hooks"));
    return problems;
  });
}

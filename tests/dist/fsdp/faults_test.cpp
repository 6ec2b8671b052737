// Faults while a sharded model trains: ranks that take different branches, an exception within a forward or a
// backward. No rank hangs, every rank has an error, and training continues where it can.

#include <atomic>
#include <stdexcept>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "dist/fsdp/shard.h"
#include "models/dnn.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/ops/creation/creation.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/fsdp/rank_errors.h"
#include "tests/support/error_text.h"

using namespace tessera;
using dist::Strategy;
using test::errors_of;

namespace {

/// Four linear layers, of which a rank may skip one.
struct Path : nn::Layer<Path> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 8, .out = 8});
  nn::Linear& b = add<nn::Linear>("b", {.in = 8, .out = 8});
  nn::Linear& c = add<nn::Linear>("c", {.in = 8, .out = 8});
  nn::Linear& d = add<nn::Linear>("d", {.in = 8, .out = 8});
  Variable forward(const Variable& x, bool skips_b) {
    const Variable h = a(x);
    return d(c(skips_b ? h : b(h)));
  }
};

}  // namespace

TEST_CASE("faults: a rank that skips a unit is an error that names both units, under full sharding") {
  const auto errors = errors_of(3, [](dist::World& world) {
    Path path;
    dist::shard(path, {.mesh = dist::Mesh(world), .units = dist::every<nn::Linear>()});
    nn::materialize(path, cpu(), 1);
    sum(path(Variable(ops::full({1, 8}, 1.0, f32)), world.rank() == 2)).backward();
  });
  // The error of the first rank that detects it names both units; those of the others name a rank.
  int mismatches = 0;
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error != "");
    CHECK((contains(error, "rank 2") || contains(error, "rank 0") || contains(error, "rank 1")));
    mismatches += contains(error, "unit 'b'") && contains(error, "unit 'c'");
  }
  CHECK(mismatches >= 1);
}

TEST_CASE("faults: ranks may skip different units where nothing is gathered") {
  const auto errors = errors_of(2, [](dist::World& world) {
    Path path;
    dist::shard(
        path,
        {.mesh = dist::Mesh(world), .strategy = Strategy::no_shard, .units = dist::every<nn::Linear>()});
    nn::materialize(path, cpu(), 1);
    const Variable loss = sum(path(Variable(ops::full({1, 8}, 1.0, f32)), world.rank() == 1));
    loss.backward();
    // Rank 1 contributes zeros to the average.
    Tensor mine = path.b.weight.grad().value().clone();
    const Tensor lowest = mine.clone(), highest = mine.clone();
    world.communicator().all_reduce(lowest, dist::Reduction::min).wait();
    world.communicator().all_reduce(highest, dist::Reduction::max).wait();
    for (int64_t i = 0; i < mine.numel(); ++i)
      require<ValueError>(lowest.data<float>()[i] == highest.data<float>()[i], "gradients differ");
    double squares = 0;
    for (int64_t i = 0; i < mine.numel(); ++i) squares += mine.data<float>()[i] * mine.data<float>()[i];
    require<ValueError>(squares > 0, "no gradient");
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("faults: an exception in one rank's forward ends all ranks with its message") {
  for (const Strategy strategy : {Strategy::no_shard, Strategy::full_shard}) {
    const auto errors = errors_of(3, [strategy](dist::World& world) {
      models::Dnn dnn({.layers = 4, .width = 8});
      dist::shard(dnn, {.mesh = dist::Mesh(world), .strategy = strategy, .units = dist::every<nn::Linear>()});
      nn::materialize(dnn, cpu(), 1);
      if (world.rank() == 1)
        dnn.layers[2].register_forward_hook(
            [](nn::Module&, const nn::CallVariables&, const nn::CallVariables&) {
              throw std::out_of_range("the third layer is broken");
            });
      const Tensor x = ops::full({2, 8}, 1.0, f32);
      for (int step = 0; step < 2; ++step) dnn.loss(x, x).backward();
    });
    CHECK(errors[1] == "the third layer is broken");
    for (const int rank : {0, 2}) {
      CAPTURE(errors[static_cast<size_t>(rank)]);
      CHECK(contains(errors[static_cast<size_t>(rank)], "rank 1 failed: the third layer is broken"));
    }
  }
}

namespace {

/// Four steps of a perceptron. Before the third one, a step ends on all ranks by an exception in the hook
/// that `break_at` registers, and its gradients are dropped. Returns this rank's values.
using BreakAt = std::function<void(models::Dnn&, const std::atomic<bool>& breaks)>;
std::vector<Tensor> train_with_fault(dist::World& world, Strategy strategy, const BreakAt& break_at) {
  models::Dnn dnn({.layers = 4, .width = 8});
  dist::shard(dnn, {.mesh = dist::Mesh(world),
                    .strategy = strategy,
                    .units = dist::every<nn::Linear>(),
                    .bucket_bytes = 64});
  nn::materialize(dnn, cpu(), 1);
  std::atomic<bool> breaks = false;
  break_at(dnn, breaks);
  optim::AdamW adam(dnn.parameters());
  const Tensor x = ops::full({2, 8}, 1.0 + world.rank(), f32), target = ops::full({2, 8}, 0.5, f32);
  for (int step = 0; step < 4; ++step) {
    if (step == 2) {
      breaks = true;
      try {
        dnn.loss(x, target).backward();
      } catch (const std::out_of_range&) {
      }
      breaks = false;
      adam.zero_grad();
    }
    dnn.loss(x, target).backward();
    adam.step();
    adam.zero_grad();
  }
  std::vector<Tensor> values;
  for (const NamedParameter& p : dnn.parameters()) values.push_back(p.values().clone());
  return values;
}

}  // namespace

TEST_CASE("faults: a step that ends by an exception on all ranks does not change later ones") {
  const BreakAt in_forward = [](models::Dnn& dnn, const std::atomic<bool>& breaks) {
    dnn.layers[2].register_forward_hook([&](nn::Module&, const nn::CallVariables&, const nn::CallVariables&) {
      if (breaks) throw std::out_of_range("forward");
    });
  };
  const BreakAt in_backward = [](models::Dnn& dnn, const std::atomic<bool>& breaks) {
    dnn.layers[1].register_full_backward_pre_hook([&](nn::Module&, std::vector<Variable>&) {
      if (breaks) throw std::out_of_range("backward");
    });
  };
  for (const BreakAt& place : {in_forward, in_backward})
    for (const Strategy strategy : dist::flat_strategies)
      test::require_no_problems(2, [&](dist::World& world) {
        std::vector<std::string> problems;
        // The same hooks, which never throw, because hooks divide the graph.
        const std::atomic<bool> never = false;
        const std::vector<Tensor> expected = train_with_fault(
            world, strategy, [&](models::Dnn& dnn, const std::atomic<bool>&) { place(dnn, never); });
        const std::vector<Tensor> found = train_with_fault(world, strategy, place);
        for (size_t i = 0; i < found.size(); ++i)
          for (int64_t k = 0; k < found[i].numel(); ++k)
            if (found[i].data<float>()[k] != expected[i].data<float>()[k]) {
              problems.push_back(text(strategy, ": parameter ", i, " differs"));
              break;
            }
        return problems;
      });
}

// What goes wrong while a sharded model trains: ranks that take different paths, an exception in the midst of
// a forward or a backward. Nobody hangs, everybody is told, and what can go on does.

#include <atomic>
#include <stdexcept>

#include "autograd/functions/arithmetic.h"
#include "autograd/functions/reduction.h"
#include "dist/fsdp/shard.h"
#include "models/dnn.h"
#include "nn/materialize.h"
#include "optim/adam.h"
#include "tensor/ops/creation.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using dist::Strategy;

namespace {

/// Four linear layers, of which a rank may leave one out.
struct Path : nn::Layer<Path> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 8, .out = 8});
  nn::Linear& b = add<nn::Linear>("b", {.in = 8, .out = 8});
  nn::Linear& c = add<nn::Linear>("c", {.in = 8, .out = 8});
  nn::Linear& d = add<nn::Linear>("d", {.in = 8, .out = 8});
  Variable forward(const Variable& x, bool leaves_out) {
    const Variable h = a(x);
    return d(c(leaves_out ? h : b(h)));
  }
};

/// What each rank's `body` threw; empty where nothing.
std::vector<std::string> errors_of(int ranks, const std::function<void(dist::World&)>& body) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  try {
    dist::launch(
        [&](dist::World& world) {
          try {
            body(world);
          } catch (const std::exception& error) {
            errors[static_cast<size_t>(world.rank())] = error.what();
            throw;
          }
        },
        {.virtual_ranks = ranks, .timeout = std::chrono::seconds(10)});
  } catch (const std::exception&) {
    // one of those above
  }
  return errors;
}

bool holds(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("faults: a rank that leaves a unit out is told of, with both units, under full sharding") {
  const auto errors = errors_of(3, [](dist::World& world) {
    Path path;
    dist::shard(path, {.mesh = dist::Mesh(world), .units = dist::every<nn::Linear>()});
    nn::materialize(path, cpu(), 1);
    sum(path(Variable(ops::full({1, 8}, 1.0, f32)), world.rank() == 2)).backward();
  });
  // Whoever sees it first says it; the others hear of that rank.
  int said = 0;
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error != "");
    CHECK((holds(error, "rank 2") || holds(error, "rank 0") || holds(error, "rank 1")));
    said += holds(error, "unit 'b'") && holds(error, "unit 'c'");
  }
  CHECK(said >= 1);
}

TEST_CASE("faults: ranks may leave out different units where nothing is gathered") {
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
    require<ValueError>(squares > 0, "no gradient came");
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
        dnn.layers[2].register_forward_hook([](nn::Module&, std::span<Variable* const>) {
          throw std::out_of_range("the third layer is broken");
        });
      const Tensor x = ops::full({2, 8}, 1.0, f32);
      for (int step = 0; step < 2; ++step) dnn(x, x).backward();
    });
    CHECK(errors[1] == "the third layer is broken");
    for (const int rank : {0, 2}) {
      CAPTURE(errors[static_cast<size_t>(rank)]);
      CHECK(holds(errors[static_cast<size_t>(rank)], "rank 1 failed: the third layer is broken"));
    }
  }
}

namespace {

/// Five steps of a perceptron, of which one ends by an exception at the hook that `break_at` registers, on
/// all ranks; that step is given up, and the others go on. Answers with this rank's numbers.
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
        dnn(x, target).backward();
      } catch (const std::out_of_range&) {
      }
      breaks = false;
      adam.zero_grad();
    }
    dnn(x, target).backward();
    adam.step();
    adam.zero_grad();
  }
  std::vector<Tensor> numbers;
  for (const NamedParameter& p : dnn.parameters()) numbers.push_back(p.values().clone());
  return numbers;
}

}  // namespace

TEST_CASE("faults: a step that ends by an exception on all ranks leaves nothing behind") {
  const BreakAt in_forward = [](models::Dnn& dnn, const std::atomic<bool>& breaks) {
    dnn.layers[2].register_forward_hook([&](nn::Module&, std::span<Variable* const>) {
      if (breaks) throw std::out_of_range("forward");
    });
  };
  const BreakAt in_backward = [](models::Dnn& dnn, const std::atomic<bool>& breaks) {
    dnn.layers[1].register_backward_pre_hook([&](nn::Module&, std::vector<Variable>&) {
      if (breaks) throw std::out_of_range("backward");
    });
  };
  for (const BreakAt& place : {in_forward, in_backward})
    for (const Strategy strategy :
         {Strategy::no_shard, Strategy::shard_optim, Strategy::shard_grad_op, Strategy::full_shard})
      test::require_none(2, [&](dist::World& world) {
        std::vector<std::string> problems;
        // The same hooks, which never break: they divide the graph alike.
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

// What runs beside backward's computation: reductions, and without MessageOptions::overlap nothing.

#include <atomic>
#include <chrono>
#include <thread>

#include "dist/comm/interface/fault_injection.h"
#include "dist/fsdp/shard.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "tests/dist/fsdp/on_threads.h"

using namespace tessera;
using dist::CommPoint;
using dist::Strategy;

namespace {

constexpr models::GptOptions gpt_options{
    .vocabulary = 11, .block_size = 4, .layers = 4, .heads = 2, .width = 8};

/// Runs a forward and a backward; `on_gradient` is called when the gradient of a parameter of the module
/// named `below` is complete ("": of all).
void run(dist::World& world, Strategy strategy, bool overlap, const std::string& below,
         const std::function<void()>& on_gradient) {
  models::Gpt gpt(gpt_options);
  dist::shard(gpt, {.mesh = dist::Mesh(world),
                    .strategy = strategy,
                    .units = dist::every<models::Block>(),
                    .messages = {.overlap = overlap},
                    .bucket_bytes = 1});
  nn::materialize(gpt, cpu(), 1);
  gpt.get_submodule(below).for_each([&](nn::Module& module) {
    for (nn::Module::Entry& entry : module.entries())
      if (!entry.is_buffer)
        entry.variable.register_post_accumulate_grad_hook([&](const Variable&) { on_gradient(); });
  });
  const Tensor ids = Tensor::from<int64_t>({1, 4, 9, 0, 10, 3, 3, 7}, {2, 4});
  gpt.loss(ids, ids).backward();
}

}  // namespace

TEST_CASE("overlap: backward computes the next unit while a unit's reduction waits for another rank") {
  for (const Strategy strategy : {Strategy::shard_grad_op, Strategy::full_shard}) {
    std::atomic<bool> computed{false};
    test::require_no_problems(2, [&](dist::World& world) {
      std::vector<std::string> problems;
      // Rank 1 reduces blocks.2 only when rank 0 has a gradient of blocks.1.
      const auto wait = [&](CommPoint point, const dist::CallHeader& call) {
        if (point != CommPoint::start || call.kind != dist::CallKind::reduce_scatter ||
            call.unit != "blocks.2")
          return;
        for (int i = 0; i < 20'000 && !computed; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (!computed) problems.push_back(text(strategy, ": no gradient came while the reduction waited"));
      };
      std::optional<dist::CommHookScope> scope;
      if (world.rank() == 1) scope.emplace(wait);
      run(world, strategy, true, "blocks.1", [&] {
        if (world.rank() == 0) computed = true;
      });
      return problems;
    });
  }
}

TEST_CASE("overlap: without it no call is in flight while backward computes") {
  for (const Strategy strategy : dist::flat_strategies)
    for (const int ranks : {2, 3})
      test::require_no_problems(ranks, [&](dist::World& world) {
        std::vector<std::string> problems;
        int64_t in_flight = 0, gradients = 0;
        const dist::CommHookScope scope([&](CommPoint point, const dist::CallHeader&) {
          if (point == CommPoint::start) ++in_flight;
          if (point == CommPoint::finished) --in_flight;
        });
        run(world, strategy, false, "", [&] {
          ++gradients;
          if (in_flight != 0) problems.push_back(text(strategy, ": ", in_flight, " calls in flight"));
        });
        if (gradients == 0) problems.push_back("no gradient came");
        return problems;
      });
}

#include "dist/train/launch/fit_ranks.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "tensor/error.h"

namespace tessera::training {
namespace {

template <class Maker>
auto made(const Maker& make, const char* what, const char* caller) {
  require<ConfigError>(make != nullptr, caller, ": expected a function that makes the ", what, ", got none");
  auto result = make();
  require<ConfigError>(result != nullptr, caller, ": the function that makes the ", what, " returned none");
  return result;
}

/// Calls `body(trainer, data)` on each rank; what it returns on the first one, under a launcher on this one.
template <class Body>
auto on_ranks(const OptionsMaker& options, const DataMaker& data, dist::LaunchOptions launch,
              const char* caller, const Body& body) {
  require<ConfigError>(options != nullptr, caller, ": expected a function that makes the options, got none");
  const TrainerOptions first = options();
  const dist::LauncherJob job = dist::launcher_job();
  require<ConfigError>(first.devices >= 0, "Trainer: devices ", first.devices, ": expected 0 or more");
  require<ConfigError>(first.world == nullptr, caller,
                       ": expected options without a world, since it makes one");
  require<ConfigError>(job.size == 1 || first.devices == 0 || first.devices == job.size, "Trainer: devices ",
                       first.devices, ": expected ", job.size, ", the ranks that ", job.launcher,
                       " started, or 0");
  launch.virtual_ranks = job.size > 1 ? 1 : std::max(first.devices, 1);
  std::invoke_result_t<const Body&, Trainer&, DataModule&> result;
  dist::launch(
      [&](dist::World& world) {
        TrainerOptions own = options();
        own.world = &world;
        const auto own_data = made(data, "data module", caller);
        Trainer trainer(std::move(own));
        auto own_result = body(trainer, *own_data);
        if (world.rank() == 0 || job.size > 1) result = std::move(own_result);
      },
      launch);
  return result;
}

}  // namespace

std::map<std::string, double> fit(const OptionsMaker& options, const TaskMaker& task, const DataMaker& data,
                                  dist::LaunchOptions launch) {
  constexpr const char* caller = "training::fit";
  return on_ranks(options, data, launch, caller, [&](Trainer& trainer, DataModule& own_data) {
    const auto own_task = made(task, "task", caller);
    trainer.fit(*own_task, own_data);
    return trainer.logged();
  });
}

StepPlan plan(const OptionsMaker& options, const TaskMaker& task, const DataMaker& data,
              dist::LaunchOptions launch) {
  return on_ranks(options, data, launch, "training::plan",
                  [&](Trainer& trainer, DataModule& own_data) { return trainer.plan(task, own_data); });
}

}  // namespace tessera::training

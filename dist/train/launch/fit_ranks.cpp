#include "dist/train/launch/fit_ranks.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

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

void require_maker(const OptionsMaker& options, const char* caller) {
  require<ConfigError>(options != nullptr, caller, ": expected a function that makes the options, got none");
}

/// Throws ConfigError for an object that two lists have, which then are of ranks that run at once.
template <class Object>
void require_own(const std::vector<std::shared_ptr<Object>>& first,
                 const std::vector<std::shared_ptr<Object>>& other, const char* what, const char* caller) {
  for (const auto& object : first)
    require<ConfigError>(object == nullptr || std::find(other.begin(), other.end(), object) == other.end(),
                         caller, ": expected ", what,
                         " of its own for each rank, got one object on two ranks; the function that ",
                         "makes the options has to make them in each call (training::fit_arguments does)");
}

/// The options of each rank, made before anything starts.
std::vector<TrainerOptions> options_of_ranks(const OptionsMaker& make, int ranks, const char* caller) {
  std::vector<TrainerOptions> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(make());
    for (int before = 0; before < rank; ++before) {
      require_own(all[static_cast<size_t>(before)].callbacks, all.back().callbacks, "callbacks", caller);
      require_own(all[static_cast<size_t>(before)].monitors, all.back().monitors, "monitors", caller);
    }
  }
  return all;
}

/// Calls `body(trainer, data)` on each rank; what it returns on the first one, under a launcher on this one.
template <class Body>
auto on_ranks(const OptionsMaker& options, const DataMaker& data, dist::LaunchOptions launch,
              const char* caller, const Body& body) {
  require_maker(options, caller);
  const TrainerOptions first = options();
  const dist::LauncherJob job = dist::launcher_job();
  require<ConfigError>(first.devices >= 0, "Trainer: devices ", first.devices, ": expected 0 or more");
  require<ConfigError>(first.world == nullptr, caller,
                       ": expected options without a world, since it makes one");
  require<ConfigError>(job.size == 1 || first.devices == 0 || first.devices == job.size, "Trainer: devices ",
                       first.devices, ": expected ", job.size, ", the ranks that ", job.launcher,
                       " started, or 0");
  launch.virtual_ranks = job.size > 1 ? 1 : std::max(first.devices, 1);
  std::vector<TrainerOptions> all = options_of_ranks(options, launch.virtual_ranks, caller);
  std::invoke_result_t<const Body&, Trainer&, DataModule&> result;
  dist::launch(
      [&](dist::World& world) {
        TrainerOptions own = std::move(all[job.size > 1 ? 0 : static_cast<size_t>(world.rank())]);
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
  constexpr const char* caller = "training::plan";
  require_maker(options, caller);
  const auto without_calls =
      [&] {  // a plan calls neither callbacks nor monitors, so that ranks may share them
        TrainerOptions own = options();
        own.callbacks.clear();
        own.monitors.clear();
        return own;
      };
  return on_ranks(without_calls, data, launch, caller,
                  [&](Trainer& trainer, DataModule& own_data) { return trainer.plan(task, own_data); });
}

}  // namespace tessera::training

#include "dist/train/launch/fit_ranks.h"

#include <algorithm>
#include <utility>

#include "tensor/error.h"

namespace tessera::training {
namespace {

template <class Maker>
auto made(const Maker& make, const char* what) {
  require<ConfigError>(make != nullptr, "training::fit: expected a function that makes the ", what,
                       ", got none");
  auto result = make();
  require<ConfigError>(result != nullptr, "training::fit: the function that makes the ", what,
                       " returned none");
  return result;
}

}  // namespace

std::map<std::string, double> fit(const OptionsMaker& options, const TaskMaker& task, const DataMaker& data,
                                  dist::LaunchOptions launch) {
  require<ConfigError>(options != nullptr,
                       "training::fit: expected a function that makes the options, got none");
  const TrainerOptions first = options();
  const dist::LauncherJob job = dist::launcher_job();
  require<ConfigError>(first.devices >= 0, "Trainer: devices ", first.devices, ": expected 0 or more");
  require<ConfigError>(first.world == nullptr,
                       "training::fit: expected options without a world, since it makes one");
  require<ConfigError>(job.size == 1 || first.devices == 0 || first.devices == job.size, "Trainer: devices ",
                       first.devices, ": expected ", job.size, ", the ranks that ", job.launcher,
                       " started, or 0");
  launch.virtual_ranks = job.size > 1 ? 1 : std::max(first.devices, 1);
  std::map<std::string, double> logged;
  dist::launch(
      [&](dist::World& world) {
        TrainerOptions own = options();
        own.world = &world;
        const auto own_task = made(task, "task");
        const auto own_data = made(data, "data module");
        Trainer trainer(std::move(own));
        trainer.fit(*own_task, *own_data);
        if (world.rank() == 0 || job.size > 1) logged = trainer.logged();
      },
      launch);
  return logged;
}

}  // namespace tessera::training

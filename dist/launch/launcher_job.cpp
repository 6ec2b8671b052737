#include <charconv>
#include <cstdlib>
#include <string_view>

#include "dist/launch/launch.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// What a launcher says of the job: the variable that only it sets, and those of the rank and the size.
struct Variables {
  const char* launcher;
  const char* mark;
  const char* rank;
  const char* size;
};

// In this order: Slurm's allocation and torchrun's workers may hold an mpirun. A Slurm batch script has
// SLURM_PROCID too, but only tasks that srun started have the step's number of tasks.
constexpr Variables known[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE"},
};

int number_of(const char* variable, const char* launcher, int at_least, int below) {
  const char* const value = std::getenv(variable);
  require<ConfigError>(value != nullptr, "started by ", launcher, ", but ", variable, " is not set");
  const std::string_view digits(value);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  require<ConfigError>(
      error == std::errc() && end == digits.data() + digits.size() && number >= at_least && number < below,
      variable, " (set by ", launcher, "): expected a whole number from ", at_least, " to ", below - 1,
      ", got '", digits, "'");
  return number;
}

}  // namespace

LauncherJob launcher_job() {
  constexpr int most_ranks = 1 << 20;
  for (const Variables& variables : known) {
    if (!std::getenv(variables.mark)) continue;
    LauncherJob job{variables.launcher, 0, 1};
    job.size = number_of(variables.size, variables.launcher, 1, most_ranks);
    job.rank = number_of(variables.rank, variables.launcher, 0, job.size);
    return job;
  }
  return {};
}

}  // namespace tessera::dist

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

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

/// What launchers that cannot be served here set: the rank, and the number of ranks where they say it.
struct Foreign {
  const char* rank;
  const char* size;  ///< nullptr: it is not said
};

constexpr Foreign foreign[] = {
    {"PMI_RANK", "PMI_SIZE"},  // MPICH, Intel MPI, Cray
    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},  // MVAPICH2
    {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},    // jsrun
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    {"PMIX_RANK", nullptr},  // prun, and what else starts processes by PMIx
};

/// A task of Slurm's without a number of tasks; a batch script, which is no task, counts as number 0.
bool has_slurm_rank() {
  const char* const rank = std::getenv("SLURM_PROCID");
  return rank && std::string_view(rank) != "0" && !std::getenv("SLURM_STEP_NUM_TASKS");
}

/// Of launchers for torch, whose names alone may be anything's.
bool has_torch_rank() {
  return std::getenv("RANK") && std::getenv("WORLD_SIZE") && std::getenv("MASTER_ADDR");
}

bool is_number(const char* value, std::string_view expected) {
  return value && value == expected;
}

/// "PMI_RANK=1, PMI_SIZE=4": what says that this process is one of several ranks, though a known launcher
/// started it alone or not at all. Empty where nothing does.
std::string signs_of_foreign_job(const LauncherJob& job) {
  std::string signs;
  bool is_alone = !job.launcher.empty(), is_one_of_several = false;
  const auto look = [&](const char* rank, const char* size) {
    const char* const rank_value = std::getenv(rank);
    const char* const size_value = size ? std::getenv(size) : nullptr;
    if (!rank_value && !size_value) return;
    for (const auto& [name, value] : {std::pair(rank, rank_value), std::pair(size, size_value)})
      if (value) signs += text(signs.empty() ? "" : ", ", name, "=", value);
    is_alone = is_alone || is_number(size_value, "1");
    is_one_of_several = is_one_of_several || (size_value && !is_number(size_value, "1")) ||
                        (rank_value && !is_number(rank_value, "0"));
  };
  for (const Foreign& names : foreign) look(names.rank, names.size);
  if (has_slurm_rank()) look("SLURM_PROCID", nullptr);
  if (has_torch_rank()) look("RANK", "WORLD_SIZE");
  return is_one_of_several || !is_alone ? signs : "";
}

/// One launcher may run inside the job of another: only signs that fit no known one count.
void require_no_foreign_job(const LauncherJob& job) {
  if (job.size > 1 || job.launcher == "mpirun") return;
  const std::string signs = signs_of_foreign_job(job);
  require<ConfigError>(
      signs.empty(), "started as one of several ranks by a launcher that is not supported (", signs,
      "): each would run alone, and all would write the same files. Start them by `mpirun -n RANKS PROGRAM "
      "...` of Open MPI, or by `srun --mpi=pmix`; unset these variables to run a single process");
}

}  // namespace

LauncherJob launcher_job() {
  constexpr int most_ranks = 1 << 20;
  LauncherJob job;
  for (const Variables& variables : known) {
    if (!std::getenv(variables.mark)) continue;
    job.launcher = variables.launcher;
    job.size = number_of(variables.size, variables.launcher, 1, most_ranks);
    job.rank = number_of(variables.rank, variables.launcher, 0, job.size);
    break;
  }
  require_no_foreign_job(job);
  return job;
}

}  // namespace tessera::dist

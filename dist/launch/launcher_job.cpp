#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "dist/launch/launch.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// The variables of a launcher: one that only it sets, that of the rank and that of the number of ranks.
struct LauncherVariables {
  const char* launcher;
  const char* marker;
  const char* rank;
  const char* size;
};

// In this order: mpirun may run inside a Slurm allocation or a torchrun worker. A Slurm batch script has
// SLURM_PROCID too, but only tasks that srun started have the step's number of tasks.
constexpr LauncherVariables supported[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE"},
};

int integer_of(const char* variable, const char* launcher, int at_least, int below) {
  const char* const value = std::getenv(variable);
  require<ConfigError>(value != nullptr, "started by ", launcher, ", but ", variable, " is not set");
  const std::string_view digits(value);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  require<ConfigError>(
      error == std::errc() && end == digits.data() + digits.size() && number >= at_least && number < below,
      variable, " (set by ", launcher, "): expected an integer from ", at_least, " to ", below - 1, ", got '",
      digits, "'");
  return number;
}

/// The variables of an unsupported launcher.
struct UnsupportedVariables {
  const char* rank;
  const char* size;  ///< the number of ranks; nullptr: no variable has it
};

constexpr UnsupportedVariables unsupported[] = {
    {"PMI_RANK", "PMI_SIZE"},  // MPICH, Intel MPI, Cray
    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},  // MVAPICH2
    {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},    // jsrun
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    {"PMIX_RANK", nullptr},  // prun and other launchers that use PMIx
};

/// Whether this is a Slurm task without a number of tasks. A batch script is no task and has SLURM_PROCID 0.
bool has_unsized_slurm_rank() {
  const char* const rank = std::getenv("SLURM_PROCID");
  return rank && std::string_view(rank) != "0" && !std::getenv("SLURM_STEP_NUM_TASKS");
}

/// Whether this is a rank of a launcher for torch. Other programs may use one of these names alone.
bool has_torch_rank() {
  return std::getenv("RANK") && std::getenv("WORLD_SIZE") && std::getenv("MASTER_ADDR");
}

bool equals(const char* value, std::string_view expected) {
  return value && value == expected;
}

/// The variables that show that this process is one of several ranks, although no supported launcher, or one
/// with a single rank, started it: "PMI_RANK=1, PMI_SIZE=4". Empty if there are none.
std::string unsupported_job_variables(const LauncherJob& job) {
  std::string found;
  bool is_alone = !job.launcher.empty(), is_one_of_several = false;
  const auto add = [&](const char* rank, const char* size) {
    const char* const rank_value = std::getenv(rank);
    const char* const size_value = size ? std::getenv(size) : nullptr;
    if (!rank_value && !size_value) return;
    for (const auto& [name, value] : {std::pair(rank, rank_value), std::pair(size, size_value)})
      if (value) found += text(found.empty() ? "" : ", ", name, "=", value);
    is_alone = is_alone || equals(size_value, "1");
    is_one_of_several = is_one_of_several || (size_value && !equals(size_value, "1")) ||
                        (rank_value && !equals(rank_value, "0"));
  };
  for (const UnsupportedVariables& names : unsupported) add(names.rank, names.size);
  if (has_unsized_slurm_rank()) add("SLURM_PROCID", nullptr);
  if (has_torch_rank()) add("RANK", "WORLD_SIZE");
  return is_one_of_several || !is_alone ? found : "";
}

/// A launcher may run inside the job of another, and supported launchers set some of the same variables: a
/// job of several ranks, or of mpirun, is accepted.
void require_supported_job(const LauncherJob& job) {
  if (job.size > 1 || job.launcher == "mpirun") return;
  const std::string found = unsupported_job_variables(job);
  require<ConfigError>(
      found.empty(), "started as one of several ranks by a launcher that is not supported (", found,
      "): each would run alone, and all would write the same files. Start them by `mpirun -n RANKS PROGRAM "
      "...` of Open MPI, or by `srun --mpi=pmix`; unset these variables to run a single process");
}

}  // namespace

LauncherJob launcher_job() {
  constexpr int max_ranks = 1 << 20;
  LauncherJob job;
  for (const LauncherVariables& variables : supported) {
    if (!std::getenv(variables.marker)) continue;
    job.launcher = variables.launcher;
    job.size = integer_of(variables.size, variables.launcher, 1, max_ranks);
    job.rank = integer_of(variables.rank, variables.launcher, 0, job.size);
    break;
  }
  require_supported_job(job);
  return job;
}

}  // namespace tessera::dist

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dist/launch/launch.h"
#include "tensor/error.h"

using namespace tessera;

namespace {

/// While it lives, the environment has no variables of launchers except `set`.
class Environment {
 public:
  using Values = std::map<std::string, std::string>;
  explicit Environment(const Values& set) {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_RANK",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_NTASKS",
                             "SLURM_PROCID",
                             "TORCHELASTIC_RUN_ID",
                             "RANK",
                             "WORLD_SIZE",
                             "MASTER_ADDR",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "MPI_LOCALRANKID",
                             "MPI_LOCALNRANKS",
                             "MV2_COMM_WORLD_RANK",
                             "MV2_COMM_WORLD_SIZE",
                             "PMIX_RANK",
                             "FLUX_TASK_RANK",
                             "FLUX_JOB_SIZE",
                             "JSM_NAMESPACE_RANK",
                             "JSM_NAMESPACE_SIZE"}) {
      const char* const value = std::getenv(name);
      before_[name] = value ? std::optional<std::string>(value) : std::nullopt;
      unsetenv(name);
    }
    for (const auto& [name, value] : set) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : before_)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

void check_job(const std::map<std::string, std::string>& variables, const char* launcher, int rank,
               int size) {
  const Environment environment(variables);
  const dist::LauncherJob job = dist::launcher_job();
  CHECK(job.launcher == launcher);
  CHECK(job.rank == rank);
  CHECK(job.size == size);
}

}  // namespace

TEST_CASE("launcher_job: each launcher is recognized by its variables") {
  check_job({}, "", 0, 1);
  check_job({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}}, "mpirun", 3, 4);
  check_job({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "5"}}, "srun", 5, 8);
  check_job({{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}}, "torchrun", 1, 2);
}

TEST_CASE("launcher_job: a Slurm batch script is no rank, and mpirun inside an allocation is recognized") {
  check_job({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}, "", 0, 1);
  check_job({{"OMPI_COMM_WORLD_SIZE", "2"},
             {"OMPI_COMM_WORLD_RANK", "1"},
             {"SLURM_STEP_NUM_TASKS", "1"},
             {"SLURM_PROCID", "0"}},
            "mpirun", 1, 2);
  check_job({{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "", 0, 1);  // other programs use these names too
}

TEST_CASE("launcher_job: a value that is no rank of the job is an error") {
  for (const auto& [rank, size] : std::map<std::string, std::string>{
           {"2", "2"}, {"-1", "2"}, {"one", "2"}, {"1x", "2"}, {"", "2"}, {"0", "0"}}) {
    const Environment environment({{"OMPI_COMM_WORLD_SIZE", size}, {"OMPI_COMM_WORLD_RANK", rank}});
    CHECK_THROWS_AS(dist::launcher_job(), ConfigError);
  }
  const Environment environment(Environment::Values{{"OMPI_COMM_WORLD_SIZE", "2"}});
  CHECK_THROWS_AS(dist::launcher_job(), ConfigError);
}

TEST_CASE("launcher_job: a rank of an unsupported launcher is an error that names its variables") {
  struct Rank {
    Environment::Values variables;
    std::string expected;  // in the error
  };
  const std::vector<Rank> ranks = {
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}, "PMI_RANK=0, PMI_SIZE=4"},  // mpirun of MPICH, of Intel MPI
      {{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
       "PMI_RANK=3, PMI_SIZE=4, MPI_LOCALRANKID=1, MPI_LOCALNRANKS=2"},
      {{{"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}, "MPI_LOCALRANKID=1"},
      {{{"PMIX_RANK", "1"}}, "PMIX_RANK=1"},
      {{{"PMIX_RANK", "0"}}, "PMIX_RANK=0"},  // without a number of ranks
      {{{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}}, "SLURM_PROCID=2"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}}, "RANK=0, WORLD_SIZE=2"},
      {{{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "2"}}, "FLUX_JOB_SIZE=2"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "many"}}, "PMI_SIZE=many"},
      // Slurm starts one process of an unsupported launcher on each machine.
      {{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}},
       "PMI_SIZE=2"}};
  for (const Rank& rank : ranks) {
    CAPTURE(rank.expected);
    const Environment environment(rank.variables);
    CHECK_THROWS_WITH_AS(dist::launcher_job(), doctest::Contains(rank.expected.c_str()), ConfigError);
    CHECK_THROWS_WITH_AS(dist::launch([](dist::World&) {}), doctest::Contains("mpirun -n RANKS"),
                         ConfigError);
  }
}

TEST_CASE("launcher_job: a job of one rank is accepted from any launcher") {
  check_job({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, "", 0, 1);
  check_job({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"PMIX_RANK", "0"}}, "", 0, 1);
  check_job({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "localhost"}}, "", 0, 1);
  check_job({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"}}, "srun", 0, 1);
  // Supported launchers set these too.
  check_job({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "3"}}, "mpirun", 3,
            4);
  check_job({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "5"}, {"PMI_RANK", "5"}, {"PMI_SIZE", "8"}},
            "srun", 5, 8);
}

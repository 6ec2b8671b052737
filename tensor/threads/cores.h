#pragma once  // internal

#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The number of processors that this process may keep busy: those that its affinity mask allows, or fewer
/// where its control group has a smaller share of them (rounded up). At least 1. Read from the system once.
int available_cores();

/// With OMP_PROC_BIND, an OpenMP runtime binds the main thread to its first place when it is loaded, and
/// threads inherit the mask: all would share one processor. Gives the calling thread the mask of all places
/// back. Does nothing where no variable of OpenMP's asks for it, or no runtime is loaded.
void undo_openmp_binding();

/// The number of processors that the affinity mask of the calling thread allows, as `allowed_processors`.
int affinity_cores();

/// The processor time per second that the control groups of this process leave it (1.5: one and a half
/// processors); nullopt where none of them sets a limit. Reads version 2 (`cpu.max`) and version 1
/// (`cpu.cfs_quota_us`, `cpu.cfs_period_us`), from the group that `membership` (a file as /proc/self/cgroup)
/// names up to the root of the hierarchies, mounted at `mount`; the smallest limit counts.
/// Linux: Documentation/admin-guide/cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst.
std::optional<double> cgroup_cpu_limit(const std::string& membership = "/proc/self/cgroup",
                                       const std::string& mount = "/sys/fs/cgroup");

/// The processors that the affinity mask of the calling thread allows, in their order.
std::vector<int> allowed_processors();

/// Whether TESSERA_PIN_THREADS asks for teams whose threads stay on a processor each: memory is then near the
/// thread that first wrote it, on machines with several nodes. By default the system moves threads. Throws
/// ConfigError for a value other than 0 and 1.
bool pins_threads();

/// The number of this process among those of its machine, by the variables of Open MPI, MPICH and Intel MPI,
/// Slurm and torchrun; 0 where none is set to a number.
int process_of_machine(const std::function<const char*(const char*)>& variable = std::getenv);

/// The processors of a team's threads, `first` being its place among the threads of all teams (`TeamPlaces`):
/// consecutive ones of `allowed`, so that teams of several ranks lie side by side. Empty where there are
/// fewer processors than threads.
std::vector<int> processors_of_team(std::span<const int> allowed, int first, int threads);

/// The places in a process's row of threads that its teams have: a team takes the first gap that is wide
/// enough, and leaves it when it ends, so that a team of the same size gets the same processors again. Not
/// for several threads at once.
class TeamPlaces {
 public:
  /// The first place of a team of `threads`.
  int take(int threads);
  /// Leaves the places of the team that begins at `first`; does nothing where none does.
  void leave(int first);

 private:
  std::map<int, int> taken_;  // first places and numbers of threads
};

/// The value of TESSERA_NUM_THREADS. Throws ConfigError unless it is an integer from 1 to 4096.
int parse_thread_count(std::string_view value);

}  // namespace tessera

#pragma once

#include <chrono>
#include <functional>
#include <type_traits>

#include "dist/launch/world.h"

namespace tessera::dist {

struct LaunchOptions {
  /// Ranks as threads of this process; each computes with its share of the threads and has an account of its
  /// own. Not under a launcher such as mpirun.
  int virtual_ranks = 1;
  /// Threads with which each rank computes. 0: its share of the threads that a single rank would have.
  int threads = 0;
  /// How long a rank's count of operations may stand still while others wait for it.
  std::chrono::milliseconds timeout{300'000};
  /// No heartbeat from a stopped rank or over a cut link, whatever the timeout.
  std::chrono::milliseconds silence{30'000};
  /// Where ranks compute.
  Device device = cpu();
};

/// Runs `body` once per rank: once in this process if it is a rank of a launcher's job (mpirun, srun), else
/// once per virtual rank, each in a thread of its own. Returns what rank 0's body returned (this rank's under
/// a launcher). When a body throws, the other ranks end with PeerFailedError at their next call, and the
/// exception that came first is thrown here.
int launch_body(const std::function<int(World&)>& body, const LaunchOptions& options);

/// The same for any body that takes a World and returns an int or nothing.
template <class Body>
int launch(Body&& body, const LaunchOptions& options = {}) {
  return launch_body(
      [&body](World& world) -> int {
        if constexpr (std::is_void_v<std::invoke_result_t<Body&, World&>>) {
          body(world);
          return 0;
        } else {
          return body(world);
        }
      },
      options);
}

/// The job that a launcher started this process in.
struct LauncherJob {
  std::string launcher;  ///< "mpirun", "srun", "torchrun"; empty: started directly
  int rank = 0, size = 1;
};
/// Looks at the environment variables of Open MPI, Slurm and torchrun. Throws ConfigError for a rank of a job
/// of another launcher, unless that job has one rank: each rank would take itself for the whole run. The
/// message names the variables that say so and the `mpirun` line to use.
LauncherJob launcher_job();

}  // namespace tessera::dist

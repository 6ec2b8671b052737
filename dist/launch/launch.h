#pragma once

#include <chrono>
#include <functional>
#include <type_traits>

#include "dist/launch/world.h"

namespace tessera::dist {

/// Options of `launch`.
struct LaunchOptions {
  /// Ranks as threads of this process. Each computes with its share of the threads and has its own memory
  /// account. Must be 1 under a launcher such as mpirun.
  int virtual_ranks = 1;
  /// Computing threads per rank. 0: an equal share of the threads that a single rank would have; under a
  /// launcher, TESSERA_NUM_THREADS where it is set.
  int threads = 0;
  /// How long a rank's count of operations may stay unchanged while others wait for it.
  std::chrono::milliseconds timeout{300'000};
  /// After this time without a heartbeat a rank is lost (stopped, or disconnected), whatever the `timeout`.
  std::chrono::milliseconds heartbeat_timeout{30'000};
  /// The device on which ranks compute.
  Device device = cpu();
};

/// Runs `body` once per rank: once in this process if it is a rank of a launcher's job (mpirun, srun), else
/// once per virtual rank, each in a thread of its own. Returns the result of rank 0's body (under a launcher
/// that of this rank). When a body throws, the other ranks end with PeerFailedError at their next call, and
/// the first exception is thrown here.
int launch_body(const std::function<int(World&)>& body, const LaunchOptions& options);

/// `launch_body` for any body that takes a World and returns an int or nothing.
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
  std::string launcher;  ///< "mpirun", "srun", "torchrun"; empty if started directly
  /// This process's number in the job, from 0, and the number of ranks.
  /// @{
  int rank = 0, size = 1;
  /// @}
};
/// Reads the environment variables of Open MPI, Slurm and torchrun. Throws ConfigError for a rank of another
/// launcher's job, unless that job has one rank: each rank would run alone. The message names these variables
/// and the `mpirun` line to use.
LauncherJob launcher_job();

}  // namespace tessera::dist

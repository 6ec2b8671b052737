#pragma once

#include <functional>

#include "dist/launch/launch.h"

/// The two kinds of ranks that `launch_body` runs.
namespace tessera::dist {

/// Ranks as threads of this process.
int run_virtual_ranks(const std::function<int(World&)>& body, const LaunchOptions& options);

/// This process as a rank of `job`. Throws NotBuiltError in a build without MPI, ConfigError where the job's
/// launcher does not offer MPI.
int run_process_rank(const std::function<int(World&)>& body, const LaunchOptions& options,
                     const LauncherJob& job);

/// The name of this machine.
std::string host_name();

}  // namespace tessera::dist

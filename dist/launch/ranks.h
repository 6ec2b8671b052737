#pragma once

#include <functional>

#include "dist/launch/launch.h"

/// The two ways in which `launch_body` makes ranks.
namespace tessera::dist {

/// Ranks as threads of this process.
int run_virtual_ranks(const std::function<int(World&)>& body, const LaunchOptions& options);

/// This process as a rank of `job`. Throws NotBuiltError without MPI, ConfigError where the job's launcher
/// offers none.
int run_process_rank(const std::function<int(World&)>& body, const LaunchOptions& options,
                     const LauncherJob& job);

/// The name of this machine.
std::string host_name();

}  // namespace tessera::dist

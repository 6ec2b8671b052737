#pragma once  // internal

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// The number of processors that this process may keep busy: those that its affinity mask allows, or fewer
/// where its control group has a smaller share of them (rounded up). At least 1. Read from the system once.
int available_cores();

/// The number of processors that the affinity mask of the calling thread allows.
int affinity_cores();

/// The processor time per second that the control groups of this process leave it (1.5: one and a half
/// processors); nullopt where none of them sets a limit. Reads version 2 (`cpu.max`) and version 1
/// (`cpu.cfs_quota_us`, `cpu.cfs_period_us`), from the group that `membership` (a file as /proc/self/cgroup)
/// names up to the root of the hierarchies, mounted at `mount`; the smallest limit counts.
/// Linux: Documentation/admin-guide/cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst.
std::optional<double> cgroup_cpu_limit(const std::string& membership = "/proc/self/cgroup",
                                       const std::string& mount = "/sys/fs/cgroup");

/// The value of TESSERA_NUM_THREADS. Throws ConfigError unless it is an integer from 1 to 4096.
int parse_thread_count(std::string_view value);

}  // namespace tessera

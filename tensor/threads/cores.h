#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// Processors that this process may keep busy: those that its affinity mask allows, or fewer where its
/// control group has a smaller share of them (rounded up). At least 1. Asked of the system once.
int available_cores();

/// Processors that the affinity mask of the calling thread allows.
int affinity_cores();

/// The processor time per second that the control groups of this process leave it (1.5: one and a half
/// processors); nothing where none of them sets a limit. Reads version 2 (`cpu.max`) and version 1
/// (`cpu.cfs_quota_us`, `cpu.cfs_period_us`), from the group that `membership` (a file as /proc/self/cgroup)
/// names up to the root of the hierarchies, mounted at `mount`; the smallest limit counts.
/// Linux: Documentation/admin-guide/cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst.
std::optional<double> cgroup_cpu_limit(const std::string& membership = "/proc/self/cgroup",
                                       const std::string& mount = "/sys/fs/cgroup");

/// What TESSERA_NUM_THREADS says. Throws ConfigError unless it is a whole number from 1 to 4096.
int parse_thread_count(std::string_view value);

}  // namespace tessera

#pragma once  // internal

#include <cstdint>

/// Where a process runs, in terms of the kernel. Host names are not enough: two machines may have the same
/// one, and the containers of one machine have many.
namespace tessera::dist {

/// What other processes need to find this one. Plain bytes, which are sent to them.
struct ProcessPlace {
  uint64_t kernel = 0;         ///< hash of the boot id: equal for all processes under one running kernel
  uint64_t pid_namespace = 0;  ///< the namespace of `pid`
  int64_t pid = 0;
  uint64_t start = 0;  ///< clock ticks from boot to its start: differs for a later process of the same pid

  /// Whether both compete for the same processors.
  bool shares_kernel_with(const ProcessPlace& other) const { return kernel == other.kernel; }
  /// Whether each can find the other by its pid, as mapping its memory and detecting its end require.
  bool shares_pids_with(const ProcessPlace& other) const {
    return shares_kernel_with(other) && pid_namespace == other.pid_namespace;
  }
};

/// The place of this process. Where the kernel gives no boot id, the host name is used instead.
ProcessPlace this_process();
/// A descriptor (pidfd) that becomes readable when that process ends. -1: the process is not visible from
/// here, has ended, or this kernel has no such descriptors.
int open_process(const ProcessPlace& place);
/// Whether that process runs, as far as this one sees it.
bool is_running(const ProcessPlace& place);

}  // namespace tessera::dist

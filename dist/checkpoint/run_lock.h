#pragma once

#include <string>

namespace tessera::dist {

/// The lock's file in a run's folder; it contains the process and the host of the holder.
inline constexpr const char* run_lock_name = "run.lock";

/// Locks a run's folder from the beginning of the run to its end, so that no other run saves into it. Of many
/// ranks, only the first constructs it. It is the kernel's lock on a file (flock): the kernel releases it
/// when the process ends in any way. The destructor removes the file, and the folder if the constructor
/// created it and it is empty. Over NFS the lock holds between hosts where the server has a lock manager, and
/// only within a host under `nolock`. A file system without locks is used without.
class RunLock {
 public:
  /// Creates the folder if it is absent. Throws ConfigError, naming the folder and the process and host that
  /// hold the lock; CheckpointError when the folder or the file cannot be created.
  explicit RunLock(const std::string& root);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  bool try_lock(const std::string& root, int attempt);

  std::string path_;
  int descriptor_ = -1;
  bool created_folder_ = false;
};

}  // namespace tessera::dist

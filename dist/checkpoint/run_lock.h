#pragma once

#include <string>

namespace tessera::dist {

/// The lock's file in a run's folder; it holds the process and the host.
inline constexpr const char* run_lock_name = "run.lock";

/// Holds a run's folder for one run from its beginning to its end, so that no other run saves into it. Of
/// many ranks, the first one holds it. It is the kernel's lock on a file (flock), which goes with the process
/// however that ends; the file goes when the lock is given up, and so does a folder that was made for it and
/// is still empty. Over NFS it holds between hosts where the server has a lock manager, and only within a
/// host under `nolock`; a file system without locks is used without.
class RunLock {
 public:
  /// Makes the folder where it is absent. Throws ConfigError naming the folder and the process and host that
  /// hold it; CheckpointError when the folder or the file cannot be made.
  explicit RunLock(const std::string& root);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  bool try_lock(const std::string& root);

  std::string path_;
  int descriptor_ = -1;
  bool made_folder_ = false;
};

}  // namespace tessera::dist

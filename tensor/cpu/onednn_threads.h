#pragma once

#include <omp.h>

namespace tessera::kernels::cpu {

/// oneDNN asks OpenMP how many threads it may take: one while this lives, the calling one. Threads are ours.
class SingleThreadScope {
 public:
  SingleThreadScope() : previous_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreadScope() { omp_set_num_threads(previous_); }
  SingleThreadScope(const SingleThreadScope&) = delete;
  SingleThreadScope& operator=(const SingleThreadScope&) = delete;

 private:
  int previous_;
};

}  // namespace tessera::kernels::cpu

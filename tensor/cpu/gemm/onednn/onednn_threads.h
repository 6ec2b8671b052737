#pragma once  // internal

#include <omp.h>

namespace tessera::kernels::cpu {

/// Limits oneDNN to the calling thread while it lives: oneDNN takes its number of threads from OpenMP, and
/// products are shared among our own threads.
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

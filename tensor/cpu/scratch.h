#pragma once

#include <cstdint>

#include "tensor/memory/cpu_allocator.h"

namespace tessera::kernels::cpu {

/// Uninitialised memory for the length of a kernel's call, from the caching allocator; entered in no account.
template <class A>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(count * static_cast<int64_t>(sizeof(A))), data_(cpu_allocate(bytes_)) {}
  ~Scratch() { cpu_free(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  A* get() const { return static_cast<A*>(data_); }

 private:
  int64_t bytes_;
  void* data_;
};

}  // namespace tessera::kernels::cpu

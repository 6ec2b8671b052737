#pragma once  // internal

#include <cstdint>

#include "tensor/memory/cpu_allocator.h"

namespace tessera::kernels::cpu {

/// A kernel's working memory: `count` values of type A, 64-byte aligned and uninitialised, from the caching
/// allocator. It is freed with this object, and no memory account counts it.
template <class A>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(count * static_cast<int64_t>(sizeof(A))), data_(bytes_ > 0 ? cpu_allocate(bytes_) : nullptr) {}
  ~Scratch() {
    if (data_) cpu_free(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  A* get() const { return static_cast<A*>(data_); }

 private:
  int64_t bytes_;
  void* data_;
};

}  // namespace tessera::kernels::cpu

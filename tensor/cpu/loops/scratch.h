#pragma once  // internal

#include <cstdint>

#include "tensor/memory/cpu_allocator.h"
#include "tensor/memory/thread_arena.h"

namespace tessera::kernels::cpu {

/// A kernel's working memory: `count` values of type A, 64-byte aligned and uninitialised, from the thread's
/// arena, or, where that is too small, from the caching allocator. It is freed with this object, by the
/// thread that made it, and no memory account counts it.
template <class A>
class Scratch {
 public:
  explicit Scratch(int64_t count) : bytes_(count * static_cast<int64_t>(sizeof(A))) {
    if (bytes_ <= 0) return;
    data_ = arena_allocate(bytes_);
    in_arena_ = data_ != nullptr;
    if (!in_arena_) data_ = cpu_allocate(bytes_);
  }
  ~Scratch() {
    if (in_arena_)
      arena_free(data_);
    else if (data_ != nullptr)
      cpu_free(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  A* get() const { return static_cast<A*>(data_); }

 private:
  int64_t bytes_;
  void* data_ = nullptr;
  bool in_arena_ = false;
};

}  // namespace tessera::kernels::cpu

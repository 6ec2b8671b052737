// Memory as one thread's generic addresses name it, for functions that the device has itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::cuda_sim {

class Warp;
struct Instruction;

class ThreadMemory {
 public:
  ThreadMemory(Warp& warp, const Instruction& call, int lane) : warp_(&warp), call_(&call), lane_(lane) {}

  /// @throws KernelFault where the bytes are not all in the thread's reach.
  void read(uint64_t address, void* to, size_t bytes) const;
  template <class T>
  T value(uint64_t address) const {
    T out;
    read(address, &out, sizeof out);
    return out;
  }
  /// The text up to its zero byte.
  std::string text(uint64_t address) const;

 private:
  Warp* warp_;
  const Instruction* call_;
  int lane_;
};

/// "kernel, file:line `instruction`, block 3, thread 17".
std::string describe_thread(const Warp& warp, const Instruction& instruction, int lane);

}  // namespace tessera::cuda_sim

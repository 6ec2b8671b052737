// What the examples ask the simulated card: counts and findings. On a card they are not there, and the
// examples print their results alone.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace card {

/// Ends the program where a call of the runtime failed.
inline void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(1);
}

template <class Function>
Function* simulated(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

inline bool is_simulated() {
  return simulated<void()>("tessera_cuda_sim_clear_counters") != nullptr;
}

/// A count of all launches of a kernel so far, by the names of tools/cuda_sim/checks/counters.h.
inline double count(const char* kernel, const char* name) {
  const auto counter = simulated<uint64_t(const char*, const char*)>("tessera_cuda_sim_counter");
  return counter == nullptr ? 0 : static_cast<double>(counter(kernel, name));
}

/// The findings since the last call, a line each, and their number.
inline uint64_t take_findings(std::string& text) {
  const auto number = simulated<uint64_t()>("tessera_cuda_sim_findings");
  const auto copy = simulated<size_t(char*, size_t)>("tessera_cuda_sim_text");
  const auto clear = simulated<void()>("tessera_cuda_sim_clear_findings");
  if (number == nullptr || copy == nullptr || clear == nullptr) return 0;
  text.resize(copy(nullptr, 0) + 1);
  copy(text.data(), text.size());
  text.pop_back();
  const uint64_t found = number();
  clear();
  return found;
}

/// Memory of the device for the life of the object.
template <class T>
struct Array {
  T* data = nullptr;
  explicit Array(size_t count) { check(cudaMalloc(&data, count * sizeof(T))); }
  ~Array() { cudaFree(data); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
};

}  // namespace card

// Arrays on the host and on the device, and comparisons that a NaN fails.
#pragma once

#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/cuda_sim/device_check.h"

namespace device_check {

/// Normally distributed values, the same in every run.
template <class T>
std::vector<T> normal(size_t count, uint32_t seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(0, deviation);
  std::vector<T> values(count);
  for (T& value : values) value = T(distribution(random));
  return values;
}

/// An array of the device; nothing is written where no values are given.
template <class T>
struct DeviceArray {
  T* data = nullptr;
  size_t count;
  explicit DeviceArray(size_t elements) : count(elements) {
    REQUIRE_OK(cudaMalloc(&data, count * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    REQUIRE_OK(cudaMemcpy(data, values.data(), count * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data); }
  std::vector<T> get() const {
    std::vector<T> values(count);
    REQUIRE_OK(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
};

/// The greatest difference so far. It stays NaN once it is NaN, which std::max would forget.
class Difference {
 public:
  void add(double value, double expected) {
    const double difference = std::fabs(value - expected);
    if (!(difference <= greatest_) && greatest_ == greatest_) greatest_ = difference;
  }
  bool is_within(double tolerance) const {
    if (greatest_ <= tolerance) return true;
    std::printf("greatest difference %g, allowed %g\n", greatest_, tolerance);
    return false;
  }

 private:
  double greatest_ = 0;
};

/// Bits of an array as one value (FNV-1a): printed, so that runs in other orders can be compared.
template <class T>
void print_bits(const char* name, const std::vector<T>& values) {
  uint64_t hash = 1469598103934665603u;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (size_t i = 0; i < values.size() * sizeof(T); ++i) hash = (hash ^ bytes[i]) * 1099511628211u;
  std::printf("bits of %s: %016llx\n", name, static_cast<unsigned long long>(hash));
}

}  // namespace device_check

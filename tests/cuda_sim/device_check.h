// Test cases in CUDA sources: few lines, since nvcc parses them for host and device. A program runs its cases
// and exits with 1 where a check failed. It runs on the simulated card, and where it asks for no findings on
// a real one too.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tools/cuda_sim/runtime/tessera_cuda_sim.h"

namespace device_check {

struct Case {
  const char* name;
  void (*run)();
};
inline std::vector<Case> cases;
inline int failures = 0, checks = 0;

struct Registration {
  Registration(const char* name, void (*run)()) { cases.push_back({name, run}); }
};

inline void check(bool is_true, const char* text, const char* file, int line) {
  ++checks;
  if (is_true) return;
  ++failures;
  std::printf("%s:%d: CHECK( %s ) is false\n", file, line, text);
}

inline std::string to_text(cudaError_t value) {
  return cudaGetErrorName(value);
}
template <class T>
std::string to_text(const T& value) {
  return std::to_string(value);
}

template <class A, class B>
void check_equal(const A& a, const B& b, const char* text, const char* file, int line) {
  ++checks;
  if (a == b) return;
  ++failures;
  std::printf("%s:%d: CHECK( %s ) is false: %s and %s\n", file, line, text, to_text(a).c_str(),
              to_text(b).c_str());
}

inline std::string findings() {
  std::string text(tessera_cuda_sim_text(nullptr, 0) + 1, '\0');
  tessera_cuda_sim_text(text.data(), text.size());
  text.pop_back();
  return text;
}

/// Whether there are findings of `check` and of no other, since the last call.
inline bool only(const char* check) {
  const auto all = tessera_cuda_sim_findings(), found = tessera_cuda_sim_findings_of(check);
  const bool result = all != 0 && all == found;
  if (!result) std::printf("expected findings of %s alone, found:\n%s", check, findings().c_str());
  tessera_cuda_sim_clear_findings();
  return result;
}
inline bool none() {
  const bool result = tessera_cuda_sim_findings() == 0;
  if (!result) std::printf("expected no findings, found:\n%s", findings().c_str());
  tessera_cuda_sim_clear_findings();
  return result;
}

inline int run(int argc, char** argv) {
  tessera_cuda_sim_print(0);
  const std::string only_case = argc > 1 ? argv[1] : "";
  for (const Case& one : cases) {
    if (std::string(one.name).find(only_case) == std::string::npos) continue;
    const int before = failures;
    one.run();
    cudaDeviceSynchronize();
    if (tessera_cuda_sim_findings() != 0) {
      ++failures;
      std::printf("findings are left over:\n%s", findings().c_str());
      tessera_cuda_sim_clear_findings();
    }
    cudaGetLastError();
    if (failures != before) std::printf("in TEST_CASE: %s\n", one.name);
  }
  std::printf("%zu cases, %d checks, %d failed\n", cases.size(), checks, failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace device_check

#define DEVICE_CHECK_NAME(a, b) a##b
#define DEVICE_CHECK_CASE(name, line)                                             \
  static void DEVICE_CHECK_NAME(case_, line)();                                   \
  static const device_check::Registration DEVICE_CHECK_NAME(registration_, line)( \
      name, DEVICE_CHECK_NAME(case_, line));                                      \
  static void DEVICE_CHECK_NAME(case_, line)()
#define TEST_CASE(name) DEVICE_CHECK_CASE(name, __LINE__)
#define CHECK(condition) device_check::check((condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ(a, b) device_check::check_equal((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_OK(call) CHECK_EQ(call, cudaSuccess)
#define REQUIRE_OK(call)                                                                          \
  do {                                                                                            \
    const cudaError_t require_error = (call);                                                     \
    if (require_error != cudaSuccess) {                                                           \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(require_error)); \
      std::exit(1);                                                                               \
    }                                                                                             \
  } while (0)

// The simulated card's own speed: warp instructions in a microsecond of a processor's time, by kernel, with
// all checks and counts and without them, on one host thread and on two. It says nothing about a card's time.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tools/bench/cuda_sim/adamw.cuh"
#include "tools/bench/cuda_sim/attention.cuh"
#include "tools/bench/cuda_sim/layer_norm.cuh"
#include "tools/bench/cuda_sim/softmax.cuh"

using namespace tessera::sample_kernels;

namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// Device memory, of normal values or of zeros.
template <class T>
T* array(size_t count, bool is_zero = false) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<T> values(count);
  for (T& value : values) value = T(is_zero ? 0.0f : normal(random));
  T* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
  check(cudaMemcpy(memory, values.data(), count * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  return memory;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}
double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime);
}
double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Row {
  std::string name;
  std::function<void()> launch;
};

/// layer_norm and its gradients on 1024 x 768, softmax of 2048 x 333, AdamW on 8 tensors, attention of 32
/// heads.
std::vector<Row> rows() {
  constexpr int norm_rows = 1024, columns = 768;
  static auto *x = array<float>(norm_rows * columns), *grad = array<float>(norm_rows * columns),
              *y = array<float>(norm_rows * columns, true), *weight = array<float>(columns),
              *bias = array<float>(columns), *mean = array<float>(norm_rows, true),
              *inverse = array<float>(norm_rows, true), *scale = array<float>(1);
  std::vector<Row> all;
  all.push_back({"layer_norm<", [] {
                   layer_norm<float>
                       <<<norm_rows, norm_threads>>>(x, weight, bias, y, mean, inverse, columns, 1e-5f);
                 }});
  all.push_back({"layer_norm_input_gradient", [] {
                   layer_norm_input_gradient<float>
                       <<<norm_rows, norm_threads>>>(grad, x, weight, mean, inverse, y, columns);
                 }});
  all.push_back({"layer_norm_weight_gradient", [] {
                   layer_norm_weight_gradient<float>
                       <<<columns / gradient_columns, dim3(gradient_columns, gradient_rows)>>>(
                           grad, x, mean, inverse, weight, bias, norm_rows, columns);
                 }});
  all.push_back({"softmax", [] {
                   constexpr int rows = 2048, width = 333;
                   softmax<float>
                       <<<(rows + softmax_rows - 1) / softmax_rows, 32 * softmax_rows>>>(x, y, rows, width);
                 }});
  all.push_back({"adamw", [] {
                   static const AdamwTensors tensors = [] {
                     AdamwTensors made{};
                     int block = 0, index = 0;
                     for (const int64_t numel : {768, 768 * 96, 31, 1, 5000, 64 * 64, 1024, 1025}) {
                       const auto count = static_cast<size_t>(numel);
                       made.tensor[index] = {array<float>(count), array<float>(count),
                                             array<float>(count, true), array<float>(count, true), numel};
                       made.first_block[index++] = block;
                       block += static_cast<int>((numel + adamw_chunk - 1) / adamw_chunk);
                     }
                     for (int i = index; i <= adamw_tensors; ++i) made.first_block[i] = block;
                     return made;
                   }();
                   adamw<<<tensors.first_block[adamw_tensors], adamw_threads>>>(
                       tensors, {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.1f, 0.05f}, scale);
                 }});
  all.push_back({"attention", [] {
                   constexpr int heads = 32, length = 200;
                   constexpr size_t count = size_t{heads} * length * head_size;
                   static auto *q = array<__nv_bfloat16>(count), *k = array<__nv_bfloat16>(count),
                               *v = array<__nv_bfloat16>(count), *o = array<__nv_bfloat16>(count);
                   static auto* log_sum = array<float>(heads * length);
                   attention<>
                       <<<dim3((length + attention_rows - 1) / attention_rows, heads), attention_threads,
                          attention_shared_bytes>>>(q, k, v, o, log_sum, length, 0.18f);
                 }});
  return all;
}

/// A line for each kernel of which the name contains `name`: its instructions, and the least time of a launch
/// in some rounds.
int measure(int rounds, const std::string& name) {
  const auto counter = reinterpret_cast<uint64_t (*)(const char*, const char*)>(
      dlsym(RTLD_DEFAULT, "tessera_cuda_sim_counter"));
  const auto clear = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "tessera_cuda_sim_clear_counters"));
  if (counter == nullptr || clear == nullptr) {
    std::fputs("this is a benchmark of the simulated card: LD_LIBRARY_PATH must name its libraries\n",
               stderr);
    return 1;
  }
  for (const Row& row : rows()) {
    if (row.name.find(name) == std::string::npos) continue;
    double processor = 1e30, clock = 1e30;
    row.launch();
    check(cudaDeviceSynchronize(), row.name.c_str());
    clear();
    row.launch();
    check(cudaDeviceSynchronize(), row.name.c_str());
    const auto instructions = static_cast<double>(counter(row.name.c_str(), "warp_instructions"));
    const int launches = std::max(1, static_cast<int>(2e6 / instructions));
    for (int round = 0; round < rounds; ++round) {
      const double before = processor_seconds(), since = clock_seconds();
      for (int i = 0; i < launches; ++i) row.launch();
      check(cudaDeviceSynchronize(), row.name.c_str());
      processor = std::min(processor, (processor_seconds() - before) / launches);
      clock = std::min(clock, (clock_seconds() - since) / launches);
    }
    std::printf(
        "  %-28s %10.0f instructions  %9.0f us of processors, %6.1f in a us  %9.0f us, %6.1f in a us\n",
        row.name.c_str(), instructions, processor * 1e6, instructions / (processor * 1e6), clock * 1e6,
        instructions / (clock * 1e6));
  }
  return 0;
}

/// Runs this program with other settings of the card, which it reads at its start.
int run_with(const char* program, const char* checks, const char* counts, const char* threads,
             const char* rounds) {
  std::printf("checks %s, counts %s, host threads %s\n", checks, counts, threads);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    setenv("TESSERA_CUDA_SIM_CHECKS", checks, 1);
    setenv("TESSERA_CUDA_SIM_COUNT", counts, 1);
    setenv("TESSERA_CUDA_SIM_THREADS", threads, 1);
    execl(program, program, "--measure", rounds, static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

/// [--measure] [rounds] [kernel]: with --measure one table, with the settings of the environment, of all
/// kernels or of those of which the name contains `kernel`.
int main(int argc, char** argv) {
  const bool is_child = argc > 1 && std::strcmp(argv[1], "--measure") == 0;
  const char* const rounds = argc > (is_child ? 2 : 1) ? argv[is_child ? 2 : 1] : "5";
  if (is_child) return measure(std::max(1, std::atoi(rounds)), argc > 3 ? argv[3] : "");
  int result = 0;
  for (const char* const threads : {"1", "2"}) {
    result |= run_with("/proc/self/exe", "all", "1", threads, rounds);
    result |= run_with("/proc/self/exe", "none", "0", threads, rounds);
  }
  return result;
}

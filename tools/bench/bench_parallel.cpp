// The cost of a parallel loop besides its work: from the call to the return of an empty loop of one iteration
// per thread, while the team's threads spin and after they went to sleep.
//
//     build/release/bin/bench/bench_parallel

#include <benchmark/benchmark.h>

#include <chrono>
#include <thread>

#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

void empty_loop(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  set_num_threads(threads);
  for (auto _ : state)
    parallel_for(threads, 1, [](int64_t begin, int64_t) { benchmark::DoNotOptimize(begin); });
}

void empty_loop_after_sleep(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  set_num_threads(threads);
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    const auto start = std::chrono::steady_clock::now();
    parallel_for(threads, 1, [](int64_t begin, int64_t) { benchmark::DoNotOptimize(begin); });
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}

BENCHMARK(empty_loop)->ArgName("threads")->Arg(1)->Arg(2)->Arg(8)->UseRealTime();
BENCHMARK(empty_loop_after_sleep)->ArgName("threads")->Arg(2)->UseManualTime();

}  // namespace

BENCHMARK_MAIN();

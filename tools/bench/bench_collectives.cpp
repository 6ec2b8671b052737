// Collectives between ranks of one machine, beside the rate of copying memory: microseconds of a call, and
// bytes of the full tensor per second, as the ledger counts them. Ranks are threads of this process, or the
// processes that a launcher started:
//
//   build/release/bin/bench/bench_collectives [--ranks 2] [--bind] [--seconds 0.2]
//   mpirun -n 2 build/release/bin/bench/bench_collectives
#include <sched.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "dist/launch/launch.h"
#include "tensor/profile/machine_rates.h"
#include "tensor/threads/cores.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;
using namespace tessera::dist;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Binds this thread to a core, as launchers bind their processes.
void bind_to_core(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

struct Collective {
  const char* name;
  std::function<void()> call;
};

/// Seconds of one call on rank 0: the least over several timed loops of calls.
double seconds_of(Communicator& c, const std::function<void()>& call, double budget) {
  double best = 1e9;
  int repeats = 1;
  for (double spent = 0; spent < budget;) {
    c.barrier().wait();
    const double begin = now();
    for (int i = 0; i < repeats; ++i) call();
    const Tensor elapsed = Tensor::scalar(now() - begin);
    c.broadcast(elapsed, 0).wait();  // so that every rank repeats the call the same number of times
    const double seconds = elapsed.item();
    spent += seconds;
    best = std::min(best, seconds / repeats);
    if (seconds < 0.02) repeats *= 2;
  }
  return best;
}

void measure(Communicator& c, int64_t nbytes, double budget) {
  const int64_t n = std::max<int64_t>(nbytes / 4 / c.size(), 1) * c.size(), shard_size = n / c.size();
  const Tensor full = c.empty({n}, f32), other = c.empty({n}, f32), shard = c.empty({shard_size}, f32);
  for (const Tensor& tensor : {full, other, shard}) tensor.zero();
  const Collective collectives[] = {
      {"all_reduce", [&] { c.all_reduce(full, Reduction::sum).wait(); }},
      {"reduce_scatter", [&] { c.reduce_scatter(shard, full, Reduction::sum).wait(); }},
      {"all_gather", [&] { c.all_gather(full, shard).wait(); }},
      {"broadcast", [&] { c.broadcast(full, 0).wait(); }},
      {"all_to_all", [&] { c.all_to_all(other, full).wait(); }},
  };
  if (c.rank() == 0) std::printf("%10lld", static_cast<long long>(n) * 4);
  for (const Collective& collective : collectives) {
    const double seconds = seconds_of(c, collective.call, budget);
    if (c.rank() == 0)
      std::printf(" | %9.1f us %6.1f GB/s", seconds * 1e6, static_cast<double>(n * 4) / seconds * 1e-9);
  }
  if (c.rank() == 0) std::printf("\n"), std::fflush(stdout);
}

void report(Communicator& c, double budget) {
  if (c.rank() == 0)
    std::printf("%10s | %22s | %22s | %22s | %22s | %22s\n", "bytes", "all_reduce", "reduce_scatter",
                "all_gather", "broadcast", "all_to_all");
  for (const int64_t nbytes :
       {64, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 64 << 20})
    measure(c, nbytes, budget);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures collectives between ranks of one machine.");
  int ranks = 2;
  double seconds = 0.2;
  bool bind = false;
  app.add_flag("--bind", bind, "bind each rank to a core, as launchers do with processes");
  app.add_option("--ranks", ranks, "number of ranks, as threads; under a launcher each process is a rank")
      ->capture_default_str();
  app.add_option("--seconds", seconds, "seconds spent on each measurement")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  launch(
      [&](World& world) {
        set_num_threads(1);
        if (bind) bind_to_core(world.local_rank() % available_cores());
        if (world.rank() == 0)
          std::printf("copying, read and written: %.1f GB/s in cache (4 MB), %.1f GB/s in memory\n\n",
                      measured_copy_rate(4 << 20) * 1e-9, measured_copy_rate() * 1e-9);
        world.communicator().barrier().wait();
        report(world.communicator(), seconds);
      },
      {.virtual_ranks = launcher_job().size > 1 ? 1 : ranks});
}

// How a training step scales with threads, by arithmetic: the products and the attention of each preset are
// shared as on the machine (thread_cut.h, attention_shares.h), and an operation ends with its busiest thread.
// Nothing runs, so machines that are not at hand are answered too. Passes over memory are left out: they
// scale with the memory's channels. Prints a table of speedups over one thread for f32 and one for bf16 on
// tiles.
//
//     build/release/bin/bench/bench_scaling

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "models/presets.h"
#include "tensor/cpu/attention/attention_head_backward.h"
#include "tensor/cpu/attention/attention_shares.h"
#include "tensor/cpu/gemm/packed/gemm_packed.h"
#include "tensor/cpu/gemm/pairs/gemm_bf16.h"
#include "tensor/cpu/gemm/sharing/product_blocks.h"
#include "tensor/cpu/gemm/sharing/shared_path.h"

namespace {

using namespace tessera;
using namespace tessera::kernels::cpu;

/// What a thread computes in a microsecond, in multiply-adds: of products, and of attention; and how products
/// are shared: those of a first operand in place by a cut, weights' gradients by a grid.
struct Rates {
  const char* name;
  double products, attention;
  int64_t grain;
  CutCosts costs;
  SharedGrid (*grid)(int64_t m, int64_t n, int64_t k, int64_t threads);
};
// 60 GFLOP/s; 1,000 and 250.
constexpr Rates f32_rates{packed_path.name, 30000, 30000, packed_path.grain, packed_path.costs, &packed_grid},
    tile_rates{tile_path.name, 500000, 125000, tile_path.grain, tile_path.costs, &tile_grid};
// The microseconds of one step of the tree in which threads are started and awaited, measured by
// bench_parallel.
constexpr double step_of_tree = 1;

double start_of(int64_t threads) {
  return threads == 1 ? 0
                      : 2 * step_of_tree *
                            std::ceil(std::log(3.0 * static_cast<double>(threads) + 1) / std::log(4.0) - 1);
}

/// Microseconds of a weight's gradient: both operands are packed in equal parts, then blocks are multiplied.
double gradient_time(const ProductExtents& e, int64_t threads, const Rates& rates) {
  const SharedGrid grid = rates.grid(e.m, e.n, e.k, threads);
  const int64_t most = (grid.blocks() + grid.threads - 1) / grid.threads;
  const double whole = static_cast<double>(e.m * e.n * e.k),
               packing = static_cast<double>(e.k * (rates.costs.a_work * e.m + rates.costs.b_work * e.n)) /
                         static_cast<double>(grid.threads);
  return (whole / static_cast<double>(grid.blocks()) * static_cast<double>(most) + packing) / rates.products +
         2 * start_of(grid.threads);
}

/// Microseconds of a product of a first operand in place.
double product_time(const ProductExtents& e, int64_t threads, const Rates& rates) {
  const ProductPlan plan = plan_products(
      e, rates.grain, threads, [&](int64_t parts) { return fastest_cut(e.m, e.n, parts, rates.costs); });
  int64_t slowest = 0;
  for (int64_t t = 0; t < plan.threads; ++t)
    slowest = std::max(slowest, thread_time(plan.cut, e.m, e.n, t, rates.costs));
  return static_cast<double>(slowest * e.k) / rates.products + start_of(plan.threads);
}

/// Microseconds of attention's forward and backward on `threads`: 2 and 5 products.
double attention_time(int64_t batch, int64_t heads, int64_t time, int64_t width, int64_t threads,
                      const Rates& rates) {
  AttentionCall call{};
  call.q = call.k = call.v = Tensor::empty({batch, heads, time, width}, f32, meta());
  call.causal = true;
  const AttentionExtents e(call);
  const VisibleKeys visible(call, e, 0, 0);
  const QueryShares shares(call, e, threads);
  int64_t forward = 0, backward = 0;
  for (int64_t i = 0; i < shares.count(); ++i) {
    int64_t pairs = 0;
    for (int64_t k = 0; k < shares.parts(i); ++k)
      for (int64_t q = shares.part(i, k).first; q < shares.part(i, k).end; ++q) pairs += visible.end(q);
    forward = std::max(forward, pairs);
  }
  const int64_t used = attention_threads(batch * heads * time * time, width, threads);
  if (deals_evenly(batch * heads, used) || time <= key_block) {
    backward = (batch * heads + used - 1) / used * time * (time + 1) / 2;
  } else {
    std::vector<int64_t> jobs;
    for (int64_t head = 0; head < batch * heads; ++head)
      for (int64_t j = 0; j < time; j += key_block) {
        const QueryRange seen = queries_of(visible, e, j);
        jobs.push_back((seen.end - seen.first) * std::min(key_block, time - j));
      }
    for (const auto& of_thread : deal_by_cost(jobs, used)) {
      int64_t pairs = 0;
      for (const int64_t job : of_thread) pairs += jobs[static_cast<size_t>(job)];
      backward = std::max(backward, pairs);
    }
  }
  return static_cast<double>((2 * forward + 5 * backward) * width) / rates.attention + 2 * start_of(used);
}

double step_time(const models::Preset& preset, int64_t threads, const Rates& rates) {
  const models::GptOptions& o = preset.model;
  const int64_t rows = preset.batch_size * o.block_size, c = o.width;
  const auto three = [&](int64_t in, int64_t out) {
    return product_time({1, rows, out, in}, threads, rates) +
           product_time({1, rows, in, out}, threads, rates) +
           gradient_time({1, out, in, rows}, threads, rates);
  };
  const double layer = three(c, 3 * c) + three(c, c) + three(c, 4 * c) + three(4 * c, c) +
                       attention_time(preset.batch_size, o.heads, o.block_size, c / o.heads, threads, rates);
  return static_cast<double>(o.layers) * layer + three(c, o.vocabulary);
}

void print_table(const Rates& rates) {
  const std::vector<int64_t> counts{2, 4, 8, 16, 28, 32, 56, 64, 96, 128};
  std::printf("| %s, threads |", rates.name);
  for (const int64_t threads : counts) std::printf(" %lld |", static_cast<long long>(threads));
  std::printf("\n| --- |");
  for (size_t i = 0; i < counts.size(); ++i) std::printf(" --- |");
  std::printf("\n");
  for (const std::string& name : models::preset_names()) {
    const models::Preset preset = models::preset(name, 65);
    const double alone = step_time(preset, 1, rates);
    std::printf("| %s |", name.c_str());
    for (const int64_t threads : counts) std::printf(" %.1f |", alone / step_time(preset, threads, rates));
    std::printf("\n");
  }
}

}  // namespace

int main() {
  print_table(f32_rates);
  std::printf("\n");
  print_table(tile_rates);
}

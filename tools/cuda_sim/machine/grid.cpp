#include "tools/cuda_sim/machine/grid.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tools/cuda_sim/checks/counters.h"
#include "tools/cuda_sim/checks/findings.h"
#include "tools/cuda_sim/checks/site.h"
#include "tools/cuda_sim/machine/device.h"
#include "tools/cuda_sim/machine/faults.h"
#include "tools/cuda_sim/machine/running/warp_runner.h"

namespace tessera::cuda_sim {

namespace {

// Blocks of a host thread that take turns, and the instructions of a turn. Where all of them wait for other
// blocks, more blocks begin.
constexpr size_t blocks_per_thread = 4;
constexpr int64_t block_turn = 1 << 16;

/// A launch while it runs; its host threads share it.
class GridRun {
 public:
  GridRun(Device& device, const Program& program, const LaunchShape& shape,
          std::span<const std::byte> parameters, Operation operation)
      : device_(&device), program_(&program), shape_(shape), parameters_(parameters), operation_(operation) {
    order_blocks();
  }

  void run();

 private:
  void order_blocks();
  void work();
  void run_blocks(KernelCounters& counters);
  bool begin_next(Block& block);
  bool add_block(std::vector<std::unique_ptr<Block>>& blocks, KernelCounters& counters);
  uint64_t block_seed(uint64_t number) const;
  [[noreturn]] void report_deadlock(Block& block);

  Device* device_;
  const Program* program_;
  LaunchShape shape_;
  std::span<const std::byte> parameters_;
  Operation operation_;
  std::vector<uint64_t> order_;  ///< empty: ascending
  std::atomic<uint64_t> begun_ = 0;
  std::atomic<uint64_t> progress_ = 0;  ///< turns that did more than to wait
  std::atomic<bool> stops_ = false;
  std::mutex mutex_;
  std::exception_ptr fault_;
  KernelCounters counters_;
};

void GridRun::order_blocks() {
  const Settings& settings = device_->settings();
  if (settings.block_order == Settings::BlockOrder::ascending) return;
  order_.resize(shape_.grid.count());
  std::iota(order_.begin(), order_.end(), uint64_t{0});
  if (settings.block_order == Settings::BlockOrder::descending)
    std::reverse(order_.begin(), order_.end());
  else
    std::shuffle(order_.begin(), order_.end(), std::mt19937_64(settings.seed * 1000003 + operation_));
}

// Warps take turns in another order in every block where blocks do.
uint64_t GridRun::block_seed(uint64_t number) const {
  if (device_->settings().block_order != Settings::BlockOrder::random) return 0;
  return (device_->settings().seed + number) * 0x9e3779b97f4a7c15u + operation_ + 1;
}

void GridRun::run() {
  const auto begin = std::chrono::steady_clock::now();
  const int set = device_->settings().host_threads;
  const uint64_t wanted =
      set > 0 ? static_cast<uint64_t>(set) : std::max(1u, std::thread::hardware_concurrency());
  const uint64_t threads = std::min(wanted, shape_.grid.count());
  device_->host_threads().run(threads, [this] { work(); });
  counters_.launches = 1;
  counters_.host_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  device_->counters().add(program_->readable_name, counters_);
  const int fault = device_->take_fault();
  if (fault_) std::rethrow_exception(fault_);
  if (fault != 0)
    throw KernelFault(fault, "kernel " + program_->readable_name + " accessed memory that it may not");
}

void GridRun::work() {
  KernelCounters counters;
  try {
    run_blocks(counters);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!fault_) fault_ = std::current_exception();
    stops_ = true;
  }
  const std::lock_guard lock(mutex_);
  counters_ += counters;
}

bool GridRun::begin_next(Block& block) {
  const uint64_t next = begun_.fetch_add(1, std::memory_order_relaxed);
  if (next >= shape_.grid.count()) return false;
  const uint64_t number = order_.empty() ? next : order_[next];
  block.begin(number, block_seed(number));
  return true;
}

bool GridRun::add_block(std::vector<std::unique_ptr<Block>>& blocks, KernelCounters& counters) {
  if (begun_.load(std::memory_order_relaxed) >= shape_.grid.count()) return false;
  auto block = std::make_unique<Block>(*device_, *program_, shape_, parameters_, operation_, counters);
  if (!begin_next(*block)) return false;
  blocks.push_back(std::move(block));
  return true;
}

void GridRun::run_blocks(KernelCounters& counters) {
  std::vector<std::unique_ptr<Block>> blocks;
  uint64_t seen_progress = 0, waited = 0;  // instructions since progress was seen
  while (!stops_) {
    if (blocks.size() < blocks_per_thread) add_block(blocks, counters);
    if (blocks.empty()) return;
    bool all_wait = true;
    for (size_t i = 0; i < blocks.size() && !stops_;) {
      Block& block = *blocks[i];
      const Block::Progress progress = block.run(block_turn);
      waited += static_cast<uint64_t>(block.executed());
      if (progress != Block::Progress::waiting) {
        all_wait = false;
        progress_.fetch_add(1, std::memory_order_relaxed);
      }
      if (progress == Block::Progress::ended && !begin_next(block)) {
        blocks[i] = std::move(blocks.back());
        blocks.pop_back();
      } else {
        ++i;
      }
    }
    if (const uint64_t now = progress_.load(std::memory_order_relaxed); now != seen_progress) {
      seen_progress = now;
      waited = 0;
    }
    if (!all_wait || add_block(blocks, counters)) continue;
    if (waited > device_->settings().waiting_limit) report_deadlock(*blocks.front());
    std::this_thread::yield();
  }
}

void GridRun::report_deadlock(Block& block) {
  for (const Warp& warp : block.warps()) {
    for (const LaneGroup& group : warp.groups) {
      if (group.state != LaneGroup::State::running) continue;
      const Instruction& instruction = program_->code[group.counter];
      const std::string message =
          "every block waits in a loop for another one: " + describe_place(warp, instruction);
      if (device_->findings().is_on(Check::deadlock))
        device_->findings().add(Check::deadlock, message,
                                site_of(warp, instruction, std::countr_zero(group.lanes)));
      throw KernelFault(launch_timeout, message);
    }
  }
  throw KernelFault(launch_timeout, "every block waits for another one");
}

void check_launch(const Program& program, const LaunchShape& shape, std::span<const std::byte> parameters) {
  const auto refuse = [&](const std::string& what) {
    throw std::invalid_argument("launch of " + program.readable_name + ": " + what);
  };
  const uint64_t threads = shape.block.count();
  if (shape.grid.count() == 0) refuse("a grid without blocks");
  if (threads == 0) refuse("blocks without threads");
  if (threads > program.max_threads)
    refuse("blocks of " + std::to_string(threads) + " threads, at most " +
           std::to_string(program.max_threads) + " are allowed");
  if (program.required_threads != 0 && threads != program.required_threads)
    refuse("blocks of " + std::to_string(threads) + " threads, " + std::to_string(program.required_threads) +
           " are required");
  if (parameters.size() < program.parameter_bytes)
    refuse("parameters of " + std::to_string(parameters.size()) + " bytes, the kernel has " +
           std::to_string(program.parameter_bytes));
}

}  // namespace

void run_grid(Device& device, const Program& program, const LaunchShape& shape,
              std::span<const std::byte> parameters, Operation operation) {
  check_launch(program, shape, parameters);
  GridRun(device, program, shape, parameters, operation).run();
}

}  // namespace tessera::cuda_sim

// A block of threads: its warps, its shared memory, its barriers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tools/cuda_sim/checks/operation_order.h"
#include "tools/cuda_sim/machine/program.h"
#include "tools/cuda_sim/machine/running/barriers.h"
#include "tools/cuda_sim/machine/warp.h"

namespace tessera::cuda_sim {

class Device;
class SharedShadow;
class WarpRunner;
struct KernelCounters;

/// A launch: what <<<grid, block, dynamic_shared>>> says.
struct LaunchShape {
  Dim3 grid, block;
  uint32_t dynamic_shared_bytes = 0;
};

/// A block that runs. It is used by one host thread at a time.
class Block {
 public:
  Block(Device& device, const Program& program, const LaunchShape& shape,
        std::span<const std::byte> parameters, Operation operation, KernelCounters& counters);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Makes this the block `number` of the grid: registers, shared memory and barriers as at its begin. `seed`
  /// gives the order of warps; 0: ascending.
  void begin(uint64_t number, uint64_t seed);

  enum class Progress : uint8_t {
    running,
    waiting,  ///< all that its warps did was to wait in loops for other blocks
    ended,
  };
  /// Runs about `instructions` warp instructions, so that blocks take turns: a wait in a loop for another
  /// block ends.
  /// @throws KernelFault where the kernel does what ends it, or where nothing in the block can go on.
  Progress run(int64_t instructions);
  int64_t executed() const { return executed_; }  ///< by the last run()

  Device& device() { return *device_; }
  const Program& program() const { return *program_; }
  const LaunchShape& shape() const { return shape_; }
  std::span<const std::byte> parameters() const { return parameters_; }
  uint64_t number() const { return number_; }  ///< x first
  Dim3 position() const { return position_; }
  uint32_t threads() const { return static_cast<uint32_t>(shape_.block.count()); }
  std::span<std::byte> shared_memory() { return shared_; }
  SharedShadow& shared_shadow() { return *shared_shadow_; }
  Operation operation() const { return operation_; }
  KernelCounters& counters() { return *counters_; }
  std::span<Warp> warps() { return warps_; }
  Barriers& barriers() { return barriers_; }

 private:
  void begin_warp(Warp& warp);
  void write_fixed_registers(Warp& warp);
  uint32_t multiprocessors() const;
  void order_warps(uint64_t seed);
  void watch(uint32_t warp, int64_t instructions);
  [[noreturn]] void report_stuck();

  Device* device_;
  const Program* program_;
  LaunchShape shape_;
  std::span<const std::byte> parameters_;
  Operation operation_;
  KernelCounters* counters_;
  uint64_t number_ = 0;
  Dim3 position_;
  std::vector<std::byte> shared_;
  std::unique_ptr<SharedShadow> shared_shadow_;
  std::vector<Warp> warps_;
  std::vector<WarpRunner> runners_;
  Barriers barriers_;
  std::vector<uint32_t> turns_;  ///< warps in the order in which they take turns
  size_t turn_ = 0;
  uint32_t ended_ = 0;
  int64_t executed_ = 0;
  uint64_t unwatched_ = 0, watched_events_ = 0;  ///< instructions since a barrier or an end of a warp
};

}  // namespace tessera::cuda_sim

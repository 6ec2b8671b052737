#include "tools/cuda_sim/machine/block.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <random>
#include <string>

#include "tools/cuda_sim/checks/counters.h"
#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/checks/site.h"
#include "tools/cuda_sim/machine/decode/special_registers.h"
#include "tools/cuda_sim/machine/device.h"
#include "tools/cuda_sim/machine/faults.h"
#include "tools/cuda_sim/machine/running/warp_runner.h"

namespace tessera::cuda_sim {

namespace {

// A warp's turn: long, so that its registers stay in the cache.
constexpr int64_t warp_turn = 1 << 14;

template <class Value>
void set_register(Warp& warp, SpecialRegister name, Value value) {
  auto* out = warp.values<uint32_t>(place_of(name));
  for (uint32_t lane = 0; lane < warp_lanes; ++lane) out[lane] = value(lane);
}

void set_uniform(Warp& warp, SpecialRegister name, uint32_t value) {
  set_register(warp, name, [value](uint32_t) { return value; });
}

void set_dim(Warp& warp, SpecialRegister x, Dim3 value) {
  const std::array<uint32_t, 3> parts = {value.x, value.y, value.z};
  for (size_t i = 0; i < 3; ++i)
    set_uniform(warp, static_cast<SpecialRegister>(static_cast<size_t>(x) + i), parts[i]);
}

}  // namespace

Block::Block(Device& device, const Program& program, const LaunchShape& shape,
             std::span<const std::byte> parameters, Operation operation, KernelCounters& counters)
    : device_(&device),
      program_(&program),
      shape_(shape),
      parameters_(parameters),
      operation_(operation),
      counters_(&counters),
      shared_(shape.dynamic_shared_bytes == 0 ? program.static_shared_bytes
                                              : program.dynamic_shared_offset + shape.dynamic_shared_bytes),
      shared_shadow_(std::make_unique<SharedShadow>(device.findings())),
      warps_((threads() + warp_lanes - 1) / warp_lanes),
      barriers_(*this) {
  runners_.reserve(warps_.size());
  for (size_t i = 0; i < warps_.size(); ++i) {
    Warp& warp = warps_[i];
    warp.block_ = this;
    warp.program_ = &program;
    warp.number_ = static_cast<uint32_t>(i);
    warp.registers_.resize(program.register_bytes);
    warp.local_.resize(size_t{warp_lanes} * program.local_bytes);
    // The bank of constants is only read.
    warp.banks_ = {warp.registers_.data(), const_cast<std::byte*>(program.constants.data())};
    runners_.emplace_back(*this, warp);
    write_fixed_registers(warp);
  }
  turns_.resize(warps_.size());
}

Block::~Block() = default;

void Block::begin(uint64_t number, uint64_t seed) {
  number_ = number;
  const Dim3 grid = shape_.grid;
  position_ = {static_cast<uint32_t>(number % grid.x), static_cast<uint32_t>(number / grid.x % grid.y),
               static_cast<uint32_t>(number / grid.x / grid.y)};
  std::fill(shared_.begin(), shared_.end(), std::byte{0xff});
  shared_shadow_->reset(static_cast<uint32_t>(shared_.size()));
  barriers_.reset();
  for (Warp& warp : warps_) begin_warp(warp);
  for (WarpRunner& runner : runners_) runner.begin();
  order_warps(seed);
  ended_ = 0;
  unwatched_ = 0;
  ++counters_->blocks;
}

void Block::begin_warp(Warp& warp) {
  const uint32_t left = threads() - warp.number_ * warp_lanes;
  warp.existing = left >= warp_lanes ? all_lanes : (1u << left) - 1;
  warp.exited = 0;
  warp.last_exit = nullptr;
  warp.state = Warp::State::running;
  warp.groups.clear();
  warp.groups.push({.counter = 0, .lanes = warp.existing});
  warp.copies.assign(1, {});
  warp.clock.fill(0);
  warp.clock[warp.number_] = 1;
  warp.partial_syncs.clear();
  std::fill(warp.local_.begin(), warp.local_.end(), std::byte{0xff});
  set_dim(warp, SpecialRegister::ctaid_x, position_);
  set_uniform(warp, SpecialRegister::smid, static_cast<uint32_t>(number_ % multiprocessors()));
}

// What no block changes.
void Block::write_fixed_registers(Warp& warp) {
  const Dim3 block = shape_.block;
  const uint32_t first = warp.number_ * warp_lanes;
  set_register(warp, SpecialRegister::tid_x, [&](uint32_t lane) { return (first + lane) % block.x; });
  set_register(warp, SpecialRegister::tid_y,
               [&](uint32_t lane) { return (first + lane) / block.x % block.y; });
  set_register(warp, SpecialRegister::tid_z,
               [&](uint32_t lane) { return (first + lane) / block.x / block.y; });
  set_dim(warp, SpecialRegister::ntid_x, block);
  set_dim(warp, SpecialRegister::nctaid_x, shape_.grid);
  set_register(warp, SpecialRegister::laneid, [](uint32_t lane) { return lane; });
  set_uniform(warp, SpecialRegister::warpid, warp.number_);
  set_uniform(warp, SpecialRegister::nwarpid, max_warps_per_block);
  set_uniform(warp, SpecialRegister::nsmid, multiprocessors());
  set_register(warp, SpecialRegister::lanemask_eq, [](uint32_t lane) { return 1u << lane; });
  set_register(warp, SpecialRegister::lanemask_lt, [](uint32_t lane) { return (1u << lane) - 1; });
  set_register(warp, SpecialRegister::lanemask_le, [](uint32_t lane) { return (2u << lane) - 1; });
  set_register(warp, SpecialRegister::lanemask_gt, [](uint32_t lane) { return ~((2u << lane) - 1); });
  set_register(warp, SpecialRegister::lanemask_ge, [](uint32_t lane) { return ~((1u << lane) - 1); });
  set_uniform(warp, SpecialRegister::dynamic_smem_size, shape_.dynamic_shared_bytes);
  set_uniform(warp, SpecialRegister::total_smem_size, static_cast<uint32_t>(shared_.size()));
}

uint32_t Block::multiprocessors() const {
  return static_cast<uint32_t>(std::max(1, device_->settings().multiprocessors));
}

void Block::order_warps(uint64_t seed) {
  std::iota(turns_.begin(), turns_.end(), 0u);
  if (seed != 0) std::shuffle(turns_.begin(), turns_.end(), std::mt19937_64(seed));
  turn_ = 0;
}

Block::Progress Block::run(int64_t instructions) {
  executed_ = 0;
  const uint64_t completed = barriers_.completed();
  bool only_waits = true;
  size_t idle = 0, waiting = 0;  // warps in a row that could not run, and of them those that wait in loops
  while (executed_ < instructions) {
    const uint32_t number = turns_[turn_];
    turn_ = turn_ + 1 == turns_.size() ? 0 : turn_ + 1;
    Warp& warp = warps_[number];
    if (warp.state == Warp::State::running) {
      WarpRunner& runner = runners_[number];
      const auto stop = runner.run(std::min(warp_turn, instructions - executed_));
      executed_ += runner.executed();
      watch(number, runner.executed());
      if (stop == WarpRunner::Stop::ended && ++ended_ == warps_.size()) return Progress::ended;
      if (stop == WarpRunner::Stop::waiting) {
        ++waiting;
      } else {
        only_waits = false;
        idle = waiting = 0;
        continue;
      }
    }
    if (++idle < warps_.size()) continue;
    if (waiting == 0) report_stuck();
    if (only_waits && completed == barriers_.completed()) return Progress::waiting;
    return Progress::running;
  }
  return only_waits ? Progress::waiting : Progress::running;
}

// Ends a block in which for very long no warp has come to a barrier or to its end.
void Block::watch(uint32_t warp, int64_t instructions) {
  const uint64_t events = barriers_.completed() + ended_;
  unwatched_ = events == watched_events_ ? unwatched_ + static_cast<uint64_t>(instructions) : 0;
  watched_events_ = events;
  if (unwatched_ <= device_->settings().watchdog_limit || warps_[warp].groups.empty()) return;
  const LaneGroup& group = warps_[warp].groups[0];
  const Instruction& instruction = program_->code[group.counter];
  const std::string message = "a kernel that does not end: " + std::to_string(unwatched_) +
                              " instructions of a block without a barrier, now at " +
                              describe_place(warps_[warp], instruction);
  if (device_->findings().is_on(Check::deadlock))
    device_->findings().add(Check::deadlock, message,
                            site_of(warps_[warp], instruction, std::countr_zero(group.lanes)));
  throw KernelFault(launch_timeout, message);
}

// No warp can go on: some lanes wait for others that wait elsewhere.
void Block::report_stuck() {
  struct Place {
    const Warp* warp;
    const LaneGroup* group;
  };
  std::vector<Place> places;
  for (const Warp& warp : warps_)
    for (const LaneGroup& group : warp.groups)
      if (std::none_of(places.begin(), places.end(),
                       [&](const Place& place) { return place.group->counter == group.counter; }))
        places.push_back({&warp, &group});
  const auto describe = [this](const Place& place) {
    return "thread " +
           std::to_string(place.warp->number() * warp_lanes +
                          static_cast<uint32_t>(std::countr_zero(place.group->lanes))) +
           " waits at " + describe_place(*place.warp, program_->code[place.group->counter]);
  };
  std::string message = "threads wait for one another, and none can go on: " + describe(places[0]);
  if (places.size() > 1) message += "; " + describe(places[1]);
  for (const Warp& warp : warps_) {
    if (warp.exited == 0 || places.size() > 1) continue;
    message +=
        "; thread " +
        std::to_string(warp.number() * warp_lanes + static_cast<uint32_t>(std::countr_zero(warp.exited))) +
        " ended at " + describe_place(warp, *warp.last_exit);
    break;
  }
  if (device_->findings().is_on(Check::divergence))
    device_->findings().add(Check::divergence, message,
                            site_of(*places[0].warp, program_->code[places[0].group->counter],
                                    std::countr_zero(places[0].group->lanes)));
  throw KernelFault(launch_timeout, message);
}

}  // namespace tessera::cuda_sim

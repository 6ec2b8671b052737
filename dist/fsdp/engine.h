#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/backward_reports.h"
#include "dist/fsdp/buckets.h"
#include "dist/fsdp/shard.h"
#include "dist/fsdp/unit.h"

namespace tessera::dist {

/// Calls the units' verbs at the right moments of forward and backward: the hooks' side of a Sharding. One
/// rank's, used by that rank's thread.
class Sharding::Engine {
 public:
  Engine(nn::Module& root, ShardOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ShardOptions& options() const { return options_; }
  const StrategyTraits& traits() const { return flat_.traits; }
  nn::Module& root() const { return root_; }
  const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  /// All ranks that gradients are averaged over.
  Communicator& everyone() const { return *everyone_; }
  Communicator& shard_group() const { return *flat_.shard_group; }
  Communicator* replica_group() const { return flat_.replica_group.get(); }
  bool is_materialized() const { return materialized_; }
  void materialize(Device device, uint64_t seed);

  /// Where a parameter of a module, or a local part of one, lies; null for one that is not sharded.
  struct Place {
    FlatParameter* flat = nullptr;
    size_t index = 0;
  };
  const Place* find(const VariableImpl* variable) const;

  /// A SummonFullParams is open. If it shows `all` parameters, hooks do nothing.
  void open_summon(bool all) {
    is_summon_open_ = true;
    summoned_ = all;
  }
  void close_summon() { is_summon_open_ = summoned_ = false; }
  bool is_summon_open() const { return is_summon_open_; }
  void set_whole_numbers(const VariableImpl* variable, Tensor numbers);
  const Tensor* whole_numbers(const VariableImpl* variable) const;

  /// What the backwards of now are: the last micro-batch of a step, or an earlier one.
  struct Accumulating {
    bool open = false;
    bool communicate = false;
  };
  Accumulating accumulating;

  /// Frees what is gathered and waits for what is in flight.
  void settle();

 private:
  void check(const ShardOptions& options);
  bool have_numbers() const;
  void register_hooks();
  bool reduces_now() const { return !accumulating.open || accumulating.communicate; }
  size_t units_ahead() const { return static_cast<size_t>(options_.gathers_in_flight) - 1; }
  bool keeps_gathered() const { return accumulating.open && !traits().frees_after_forward; }

  void before_forward(Unit& unit, std::span<Variable* const> inputs);
  void after_forward(Unit& unit, std::span<Variable* const> outputs);
  void before_backward(size_t index);
  void inputs_have_gradients(size_t index);
  void prefetch_backward(const Unit& unit);
  void backward_started(std::span<const Variable> leaves);
  void forget_last_backward();
  void queue_end();
  void start_agreement();
  void leaf_finished(const VariableImpl* leaf);
  void unit_finished(size_t index);
  void free_after_backward(Unit& unit);
  void start_reduce(Unit& unit);
  void finish_reductions();
  void agree_on_reached();
  void make_buckets();
  void reduce_rest();
  void backward_ended();
  void abandon_backward();
  void gather(Unit& unit);

  nn::Module& root_;
  ShardOptions options_;
  FlatOptions flat_;
  std::shared_ptr<Communicator> everyone_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::unordered_map<const VariableImpl*, Place> places_;
  std::unordered_map<const VariableImpl*, size_t> unit_of_;  // of trainable leaves
  std::unordered_map<const VariableImpl*, Tensor> whole_numbers_;
  std::vector<HookHandle> hooks_;
  std::optional<BackwardObserver> observer_;
  std::optional<Buckets> buckets_;  // no_shard's
  bool materialized_ = false, summoned_ = false, is_summon_open_ = false;

  std::vector<Unit*> order_;  // in which the last forward came to units, for prefetching
  std::vector<Unit*> left_;   // in which it left them, the root last: backward goes the other way
  bool order_is_complete_ = false, root_is_running_ = false;
  size_t position_ = 0;  // in one of them, of the unit whose forward or backward runs
  std::vector<Unit*> reducing_;
  std::vector<int64_t> leaves_;   // of each unit that this backward reaches
  std::vector<int64_t> pending_;  // of those, what it has yet to finish
  std::vector<bool> finished_;
  bool reaches_ = false;  // this backward: a leaf of ours
  /// i32: on how many ranks this backward reaches each unit; then, on how many gradients wait there.
  Tensor reached_;
  Work agreement_;
  bool agreed_ = false;
  bool backward_is_open_ = false;  // its end was queued and has not come: when the next begins, it threw
};

}  // namespace tessera::dist

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/backward_reports.h"
#include "dist/fsdp/buckets.h"
#include "dist/fsdp/initial_values.h"
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
  /// That of a module, or all for null. Throws ConfigError, naming `what`, for a module that is no unit, and
  /// before the parameters have numbers.
  std::vector<Unit*> units_of(const nn::Module* module, const char* what) const;
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
  void set_full_value(const VariableImpl* variable, Tensor numbers);
  const Tensor* full_value(const VariableImpl* variable) const;

  /// What the backwards of now are: the last micro-batch of a step, or an earlier one.
  struct Accumulating {
    bool open = false;
    bool communicate = false;
  };
  Accumulating accumulating;

  /// Waits for what is in flight.
  void settle();
  /// Whether a call of a unit, or a backward of this thread, runs.
  bool is_in_use() const { return !running_.empty() || backward_is_running(); }
  /// Looks which parameters were frozen or unfrozen.
  void follow_requires_grad();

 private:
  void check(const ShardOptions& options);
  void require_calls() const;
  void require_numbers(const Unit& unit) const;
  void take_initial_values();
  void fill(Device device, uint64_t seed);
  void register_hooks();
  void watch_leaves(size_t index);
  void follow_requires_grad(size_t index);
  bool reduces_now() const { return !accumulating.open || accumulating.communicate; }
  size_t units_ahead() const { return static_cast<size_t>(options_.gathers_in_flight) - 1; }
  bool keeps_gathered() const { return accumulating.open && !traits().frees_after_forward; }

  void before_forward(size_t index, std::span<Variable* const> inputs);
  void after_forward(Unit& unit, std::span<Variable* const> outputs);
  void forward_failed(Unit& unit);
  void end_forward(Unit& unit);
  void before_backward(size_t index);
  void inputs_have_gradients(size_t index);
  void prefetch_backward(const Unit& unit);
  void backward_started(std::span<const Variable> leaves);
  void refuse_summoned(std::span<const Variable> leaves) const;
  void forget_last_backward();
  void queue_end();
  void start_agreement(std::span<const Variable> leaves);
  template <class Visit>
  void for_each_trained(const Visit& visit);
  void leaf_finished(const VariableImpl* leaf);
  void unit_finished(size_t index);
  void free_after_backward(Unit& unit);
  void hold_for_backward(Unit& unit);
  void provide(size_t index, FlatParameter::Demand demand);
  void release(Unit& unit);
  void start_reduce(size_t index);
  void finish_reductions();
  void agree_on_reached();
  void make_buckets();
  void reduce_rest();
  void backward_ended();
  void abandon_backward();

  nn::Module& root_;
  ShardOptions options_;
  FlatOptions flat_;
  std::shared_ptr<Communicator> everyone_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::unordered_map<const VariableImpl*, Place> places_;
  std::unordered_map<const VariableImpl*, size_t> unit_of_;  // of trainable leaves
  std::unordered_map<const VariableImpl*, Tensor> full_values_;
  std::vector<HookHandle> hooks_;
  std::optional<BackwardObserver> observer_;
  std::optional<Buckets> buckets_;        // no_shard's
  std::optional<InitialValues> initial_;  // until they are taken
  bool materialized_ = false, summoned_ = false, is_summon_open_ = false;

  std::vector<Unit*> running_;  // whose calls run, the innermost last
  std::vector<Unit*> order_;    // in which the last forward came to units, for prefetching
  std::vector<Unit*> left_;     // in which it left them, the root last: backward goes the other way
  bool order_is_complete_ = false, root_is_running_ = false;
  size_t position_ = 0;  // in one of them, of the unit whose forward or backward runs
  std::vector<Unit*> reducing_;
  std::vector<int64_t> leaves_;   // of each unit that this backward reaches
  std::vector<int64_t> pending_;  // of those, what it has yet to finish
  std::vector<bool> reduced_;     // in this backward
  bool reaches_ = false;          // this backward: a leaf of ours
  /// i32: on how many ranks this backward reaches each unit; on how many gradients wait there; and on how
  /// many each trained parameter is reached, or waits.
  Tensor reached_;
  Work agreement_;
  bool agreed_ = false;
  bool backward_is_open_ = false;  // its end was queued and has not come: when the next begins, it threw
};

}  // namespace tessera::dist

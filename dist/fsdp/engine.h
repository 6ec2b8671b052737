#pragma once  // internal

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/debug/backward_reports.h"
#include "dist/fsdp/buckets.h"
#include "dist/fsdp/initial_values.h"
#include "dist/fsdp/shard.h"
#include "dist/fsdp/unit.h"

namespace tessera::dist {

/// Calls the units' operations from hooks in forward and backward. Each rank has one, used by that rank's
/// thread.
class Sharding::Engine : public std::enable_shared_from_this<Sharding::Engine> {
 public:
  /// Lays out the units and registers the hooks. Fills the shards where every parameter has values already.
  /// `root` must outlive it. Throws what `shard` does.
  Engine(nn::Module& root, ShardOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// As given to the constructor.
  const ShardOptions& options() const { return options_; }
  /// Of the strategy.
  const StrategyTraits& traits() const { return flat_.traits; }
  /// The sharded model.
  nn::Module& root() const { return root_; }
  /// The root first.
  const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  /// The unit of a module, or all units for null. Throws ConfigError, naming `what`, for a module that is no
  /// unit, and before the parameters have values.
  std::vector<Unit*> units_of(const nn::Module* module, const char* what) const;
  /// All ranks that gradients are averaged over.
  Communicator& all_ranks() const { return *all_ranks_; }
  /// The ranks that hold one shard each.
  Communicator& shard_group() const { return *flat_.shard_group; }
  /// The ranks that hold the same shard; null without replicas.
  Communicator* replica_group() const { return flat_.replica_group.get(); }
  /// Whether the parameters have values.
  bool is_materialized() const { return materialized_; }
  /// Fills the shards of all units, unless they have values. Throws ValueError on every rank unless all have
  /// the same seed.
  void materialize(Device device, uint64_t seed);

  /// A parameter in its flat array.
  struct Place {
    FlatParameter* flat = nullptr;  ///< the flat array
    size_t index = 0;               ///< the parameter's number in it
  };
  /// The place of a module's parameter or of its local shard; null for one that is not sharded.
  const Place* find(const VariableImpl* variable) const;

  /// Opens a SummonFullParams. While it shows `all` parameters, hooks do nothing.
  void open_summon(bool all) {
    is_summon_open_ = true;
    all_summoned_ = all;
  }
  /// Closes it: hooks work again.
  void close_summon() { is_summon_open_ = all_summoned_ = false; }
  /// Whether a SummonFullParams is open, of all units or of one.
  bool is_summon_open() const { return is_summon_open_; }
  /// What `full_value` returns; an undefined tensor removes it.
  void set_full_value(const VariableImpl* variable, Tensor values);
  /// The full value of a parameter that a SummonFullParams shows; null elsewhere.
  const Tensor* full_value(const VariableImpl* variable) const;

  /// Whether the running backward is that of a step's last micro-batch or of an earlier one.
  struct AccumulationState {
    bool open = false;         ///< an earlier one
    bool communicate = false;  ///< its gradients are reduced at once
  };
  AccumulationState accumulation;  ///< set by Accumulation
  /// Says that the forward or backward which follows is that of a stage of a pipeline: units are gathered
  /// ahead in the order of its own forward.
  void begin_stage(int stage);
  /// Reduces what backwards under Accumulation have left. Throws ConfigError inside a call or a backward, and
  /// while accumulation is open.
  void reduce_accumulated();

  /// Returns when no other rank reads this rank's values any more.
  void wait_for_readers();
  /// Whether a call of a unit or a backward runs in this thread.
  bool is_in_use() const { return !running_.empty() || backward_is_running(); }
  /// Follows parameters that were frozen or unfrozen.
  void sync_requires_grad();

 private:
  void check(const ShardOptions& options);
  void require_called_units() const;
  void require_values(const Unit& unit) const;
  void take_initial_values();
  void fill_units(Device device, uint64_t seed);
  void register_hooks();
  void register_leaf_hooks(size_t index);
  void sync_requires_grad(size_t index);
  bool reduces_now() const { return !accumulation.open || accumulation.communicate; }
  size_t units_ahead() const { return static_cast<size_t>(options_.gathers_in_flight) - 1; }
  bool keeps_gathered() const { return accumulation.open && !traits().frees_after_forward; }

  void before_forward(size_t index, std::span<Variable* const> inputs);
  void after_forward(Unit& unit, std::span<Variable* const> outputs);
  void end_failed_forward(Unit& unit);
  void end_forward(Unit& unit);
  void before_backward(size_t index);
  void after_backward(size_t index);
  void prefetch(Unit& unit);
  void prefetch_backward(const Unit& unit);
  bool is_of_earlier_forward(size_t position) const;
  void begin_backward(std::span<const Variable> leaves);
  void refuse_backward_after_summon(const Unit& unit, std::span<Variable* const> outputs);
  void require_not_summoned(std::span<const Variable> leaves) const;
  void reset_backward();
  void queue_end();
  void start_agreement(std::span<const Variable> leaves);
  template <class Visit>
  void for_each_trained(const Visit& visit);
  void finish_leaf(const VariableImpl* leaf);
  void finish_unit(size_t index);
  void free_after_backward(Unit& unit);
  void hold_for_backward(Unit& unit);
  void provide(size_t index, FlatParameter::Demand demand);
  void release_holds(Unit& unit);
  void start_reduce(size_t index);
  void finish_reductions();
  void agree_on_reached();
  void make_buckets();
  void reduce_remaining();
  void end_backward();
  void end_failed_backward();
  void abandon_backward();

  nn::Module& root_;
  ShardOptions options_;
  FlatOptions flat_;
  std::shared_ptr<Communicator> all_ranks_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::unordered_map<const VariableImpl*, Place> places_;
  std::unordered_map<const VariableImpl*, size_t> unit_of_;  // of trainable leaves
  std::unordered_map<const VariableImpl*, Tensor> full_values_;
  std::vector<HookHandle> hooks_;
  std::optional<BackwardObserver> observer_;
  std::optional<Buckets> buckets_;        // no_shard's
  std::optional<InitialValues> initial_;  // until they are taken
  bool materialized_ = false, all_summoned_ = false, is_summon_open_ = false;

  std::vector<Unit*> running_;  // units with a call that runs, the innermost last
  /// The order of units in a forward, for prefetching.
  struct UnitOrder {
    std::vector<Unit*> entries;  ///< by the begins of their calls
    std::vector<Unit*> exits;    ///< by their ends, the root last: backward goes in reverse
  };
  std::map<int, UnitOrder> orders_{{0, {}}};  // of the last forward of each stage; 0 without stages
  UnitOrder* order_ = &orders_[0];            // of the stage that runs
  bool order_is_complete_ = false, root_is_running_ = false;
  size_t position_ = 0;  // of the unit that runs: among the entries in forward, among the exits in backward
  std::vector<Unit*> reducing_;
  std::vector<int64_t> reached_leaves_;  // number by unit that this backward reaches
  std::vector<int64_t> pending_leaves_;  // number by unit that it has not finished
  std::vector<bool> reduced_;            // by unit, in this backward
  bool reaches_parameters_ = false;      // this backward reaches a trained parameter of the model
  /// i32, numbers of ranks: by unit, those whose backward reaches it; by unit, those with unreduced
  /// gradients; by trained parameter, those whose backward reaches it or that have an unreduced gradient.
  Tensor reach_counts_;
  Work agreement_;
  bool agreed_ = false;
  bool backward_is_open_ = false;  // end_backward is queued; still true when the next begins: it threw
};

}  // namespace tessera::dist

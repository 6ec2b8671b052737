#pragma once  // internal

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/parameter_list.h"
#include "dist/comm/interface/communicator.h"
#include "dist/fsdp/assignment.h"
#include "dist/fsdp/flat_gradient.h"
#include "dist/fsdp/layout.h"
#include "dist/fsdp/message_calls.h"
#include "dist/fsdp/strategy.h"
#include "tensor/memory/storage_owner.h"

namespace tessera::dist {

/// Options that all flat parameters of a model share.
struct FlatOptions {
  StrategyTraits traits;                        ///< of the strategy
  std::shared_ptr<Communicator> shard_group;    ///< the ranks that hold one shard each
  std::shared_ptr<Communicator> replica_group;  ///< the ranks that hold the same shard; null without replicas
  /// Of full parameters; none: their own dtype.
  std::optional<DType> compute = {};
  /// In which gradients are reduced; none: f32 for half types, else the parameters' own dtype.
  std::optional<DType> reduce = {};
  bool keep_reduced_dtype = false;  ///< gradients of half types stay in `reduce`
  int64_t alignment = 16;           ///< as in FlatLayout, in elements
  MessageOptions messages = {};     ///< as in ShardOptions
};

/// The parameters of a unit with the same dtype, all trained or all frozen, as one flat array. A rank holds
/// its shard of the values, and the full parameters while they are gathered. A module's Variable is a view of
/// the full parameters. An optimizer gets a view of the shard. Their gradients are a `FlatGradient`.
///
///     values    master dtype    the shard; under no_shard all values
///     full      compute dtype   the full parameters, gathered or kept
class FlatParameter final : private StorageOwner {
 public:
  /// Memory that a backward needs and that is released.
  enum class Demand { parameters, gradient };

  /// Throws ConfigError for a compute dtype that the parameters cannot be gathered in.
  FlatParameter(std::string unit, std::vector<UnitParameter> parameters, const FlatOptions& options);
  FlatParameter(const FlatParameter&) = delete;
  FlatParameter& operator=(const FlatParameter&) = delete;
  ~FlatParameter() override;

  /// The name of the unit, for errors and reports.
  const std::string& unit() const { return unit_; }
  /// As the constructor took them.
  const FlatOptions& options() const { return options_; }
  /// Where the parameters lie in the array, and how it is cut into shards.
  const FlatLayout& layout() const { return layout_; }
  /// In the order of the array.
  const std::vector<UnitParameter>& parameters() const { return parameters_; }
  /// Of the full parameters.
  DType compute_dtype() const { return compute_; }
  /// Whether the parameters were trained at construction, or `make_trainable` was called. Freezing them later
  /// does not change it.
  bool is_trainable() const { return trainable_; }
  /// What an optimizer gets of parameter i. After `materialize` only.
  const NamedParameter& local(size_t i) const { return locals_[i]; }
  /// Whether `materialize` was called.
  bool is_materialized() const { return !locals_.empty(); }
  /// The gradients of these parameters.
  /// @{
  FlatGradient& gradient() { return *gradient_; }
  const FlatGradient& gradient() const { return *gradient_; }
  /// @}

  /// Allocates the shard and fills it: with the values that parameters have already, the others from their
  /// recorded initialisers. From then on the modules' Variables are views of the full parameters.
  void materialize(Device device, uint64_t seed);

  /// Calls `handler` when a backward is about to read the full parameters, or to write their gradient, and
  /// that memory is released.
  void set_demand_handler(std::function<void(Demand)> handler) { demand_handler_ = std::move(handler); }
  /// Calls the handler, if there is one.
  void demand(Demand what) const;

  // Freezing: requires_grad of a module's Variable, or of its local shard, may change after sharding.

  /// Copies a changed requires_grad from a Variable to its local shard, or back. True when any changed.
  bool sync_requires_grad();
  /// Whether all parameters were frozen so far and one is trained now.
  bool is_unfrozen() const;
  /// Prepares frozen parameters for gradients.
  void make_trainable();

  /// Whether the full parameters are gathered and have the values that the shards have now.
  bool is_gathered() const;
  /// Starts to gather the full parameters, or continues: messages of at most `most` elements in all. Returns
  /// the elements of those that it started. Throws OutOfMemoryError naming the unit and the bytes.
  int64_t start_gather(int64_t most = MessageOptions::unlimited);
  /// Returns when the full parameters are gathered. Other ranks may still read this rank's values.
  void wait_gather();
  /// Frees the full parameters, where the strategy shards them.
  void release_full();
  /// Returns when no other rank reads this rank's values any more. To be called before they are written.
  void wait_for_readers();
  /// All values in the master dtype, gathered into memory of their own; under no_shard the values themselves.
  /// Their version is that of the values, unless the compute dtype is another one.
  Tensor gather_values() const;
  /// Makes the modules' Variables views of `all`, an array as `gather_values` returns it; if it is undefined,
  /// views of the full parameters again.
  void show_values(const Tensor& all);
  /// Copies this rank's shard of `all`, an array as `gather_values` returns it, into the values.
  void set_values(const Tensor& all);

  /// This rank's place in the shard group.
  int shard() const { return options_.shard_group->rank(); }
  /// This rank's shard of `all`, an array of all shards: a view.
  Tensor own_shard(const Tensor& all) const;
  /// How calls of this unit are reported.
  CallOptions call(Traffic traffic) const { return {.unit = unit_, .traffic = traffic}; }
  /// "'wte.weight', 'h.0.ln_1.weight'", for errors.
  std::string parameter_names() const;
  /// The error of a use of these "parameters" or "gradients" after the model's destruction: a label of their
  /// storage.
  std::string describe_destroyed(const char* what) const;

  /// Whether the compute dtype is not that of the values.
  bool is_mixed() const { return master_ != compute_; }

 private:
  bool gathers_by_broadcast() const;
  Gather gather_into(const Tensor& all, const Tensor& own) const;
  void begin_gather();
  void choose_dtypes();
  void allocate_values(Device device);
  void fill_values(uint64_t seed);
  void fill_range(size_t i, const Tensor& out, int64_t first, uint64_t seed) const;
  void make_views();
  Tensor parameter_view(const Tensor& full, size_t i) const;
  uint64_t version_lead() const;
  void round_values();
  bool is_rounded() const;
  std::string describe_released(const Storage& storage) const override;
  void ensure_values(Storage& storage) override;

  std::string unit_;
  std::vector<UnitParameter> parameters_;
  FlatOptions options_;
  FlatLayout layout_;
  DType master_ = f32, compute_ = f32;
  bool trainable_ = false;

  Tensor values_, full_;
  std::vector<NamedParameter> locals_;
  uint64_t gathered_version_ = 0, rounded_lead_ = 0;
  bool gathered_ = false;  // or begun, with the values of gathered_version_
  Gather gather_;
  std::vector<bool> trained_;  // by parameter, at the last sync_requires_grad
  std::function<void(Demand)> demand_handler_;
  std::unique_ptr<FlatGradient> gradient_;
};

}  // namespace tessera::dist

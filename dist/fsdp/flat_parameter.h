#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/parameter_list.h"
#include "dist/comm/interface/communicator.h"
#include "dist/fsdp/assignment.h"
#include "dist/fsdp/layout.h"
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
};

/// The parameters of a unit with the same dtype, all trained or all frozen, as one flat array. A rank holds
/// its shard of the values, the full parameters while they are gathered, and the gradient of each. A module's
/// Variable is a view of the full parameters. An optimizer gets a view of the shard.
///
///     values    master dtype           the shard; under no_shard all values
///     full      compute dtype          the full parameters, gathered or kept
///     gradient  f32 under half types   of the full parameters; where backward accumulates
///     reduced   the gradient's dtype   of the values; what an optimizer reads
class FlatParameter final : private StorageOwner {
 public:
  /// Memory that a backward needs and that is released.
  enum class Demand { parameters, gradient };

  /// Throws ConfigError for a compute dtype that the parameters cannot be gathered in.
  FlatParameter(std::string unit, std::vector<UnitParameter> parameters, const FlatOptions& options);
  FlatParameter(const FlatParameter&) = delete;
  FlatParameter& operator=(const FlatParameter&) = delete;
  ~FlatParameter() override;

  /// Where the parameters lie in the array, and how it is cut into shards.
  const FlatLayout& layout() const { return layout_; }
  /// In the order of the array.
  const std::vector<UnitParameter>& parameters() const { return parameters_; }
  /// Whether the parameters were trained at construction, or `make_trainable` was called. Freezing them later
  /// does not change it.
  bool is_trainable() const { return trainable_; }
  /// Of the gradients that backward accumulates and that the optimizer reads.
  DType gradient_dtype() const { return gradient_dtype_; }
  /// Of the gradients that are sent in a reduction.
  DType reduce_dtype() const { return reduce_dtype_; }
  /// What an optimizer gets of parameter i. After `materialize` only.
  const NamedParameter& local(size_t i) const { return locals_[i]; }
  /// Whether `materialize` was called.
  bool is_materialized() const { return !locals_.empty(); }

  /// Allocates the shard and fills it: with the values that parameters have already, the others from their
  /// recorded programs. From then on the modules' Variables are views of the full parameters.
  void materialize(Device device, uint64_t seed);

  /// Calls `handler` when a backward is about to read the full parameters, or to write their gradient, and
  /// that memory is released.
  void set_demand_handler(std::function<void(Demand)> handler) { demand_handler_ = std::move(handler); }

  // Freezing: requires_grad of a module's Variable, or of its local shard, may change after sharding.

  /// Copies a changed requires_grad from a Variable to its local shard, or back. True when any changed.
  bool sync_requires_grad();
  /// Whether all parameters were frozen so far and one is trained now.
  bool is_unfrozen() const;
  /// Prepares frozen parameters for gradients.
  void make_trainable();

  // Parameters.

  /// Whether the full parameters are gathered and have the values that the shards have now.
  bool is_gathered() const;
  /// Starts to gather the full parameters. Throws OutOfMemoryError naming the unit and the bytes.
  void start_gather();
  /// Returns when the full parameters are gathered. Other ranks may still read this rank's values.
  void wait_gather();
  /// Frees the full parameters, where the strategy shards them.
  void release_full();
  /// Returns when no other rank reads this rank's values any more. To be called before they are written.
  void wait_for_readers();
  /// All values in the master dtype, gathered into memory of their own; under no_shard the values themselves.
  Tensor gather_values() const;
  /// Makes the modules' Variables views of `all`, an array as `gather_values` returns it; if it is undefined,
  /// views of the full parameters again.
  void show_values(const Tensor& all);
  /// Copies this rank's shard of `all`, an array as `gather_values` returns it, into the values.
  void set_values(const Tensor& all);

  // Gradients.

  /// Sets the memory of the full parameters' gradient; without it `materialize` allocates some. Gradients not
  /// reduced yet are moved there by the reduction.
  void set_gradient_memory(const Tensor& memory);
  /// Prepares the memory in which backward accumulates. Does nothing while it holds gradients of an earlier
  /// backward that are not reduced yet.
  void prepare_gradient();
  /// Drops gradients that were not marked as unreduced. The memory is prepared again at its next use.
  void drop_unmarked();
  /// After a backward that an exception ended: waits for calls in flight and drops all gradients that the
  /// optimizer has not received yet, those of earlier micro-batches too.
  void abandon();
  /// Clears the gradient of parameter i, also what this rank has not reduced yet.
  void clear_gradient(size_t i);
  /// Marks gradients as accumulated and not reduced. There are none if their memory was not prepared.
  void mark_unreduced() { unreduced_ = prepared_; }
  /// Whether gradients are marked as unreduced.
  bool has_unreduced() const { return unreduced_; }
  /// Whether parameter i has a gradient that is not reduced yet.
  bool has_unreduced(size_t i) const { return unreduced_ && parameters_[i].variable.grad().defined(); }
  /// Notes that some rank's backward reached parameter i: the optimizer receives its gradient.
  void set_reached(size_t i) { reached_[i] = true; }
  /// Starts the reduction of all gradients over the ranks. Parameters that this rank's backward did not reach
  /// contribute zeros. The optimizer receives no gradient of a parameter that no rank reached.
  void start_reduce();
  /// Returns when the reduction is done and the optimizer has its gradients, added to those of earlier
  /// reductions that were not cleared. Frees the memory of `prepare_gradient` where the strategy allows it.
  void finish_reduce();
  /// Copies the gradient of parameter i to its place in the gradient's memory, unless it lies there; writes
  /// zeros if backward did not reach the parameter.
  void collect_gradient(size_t i);
  /// Under no_shard, after the gradient's memory was averaged over the ranks in place: gives the optimizer
  /// its gradients. If no rank `reached` these parameters, those of earlier backwards.
  void accept_averaged(bool reached);

 private:
  bool is_mixed() const { return master_ != compute_; }
  int shard() const { return options_.shard_group->rank(); }
  CallOptions call(Traffic traffic) const { return {.unit = unit_, .traffic = traffic}; }
  void choose_dtypes();
  void allocate_values(Device device);
  void fill_values(uint64_t seed);
  void fill_range(size_t i, const Tensor& out, int64_t first, uint64_t seed) const;
  void make_views();
  Tensor parameter_view(const Tensor& full, size_t i) const;
  uint64_t version_lead() const;
  void round_values();
  bool is_rounded() const;
  Tensor own_shard(const Tensor& full) const;
  Tensor gradient_buffer(size_t i) const;
  void find_cleared();
  void move_reduced();
  Tensor empty_gradient_shard() const;
  Tensor reduced_range(size_t i) const;
  void start_reduce_scatter(const Tensor& source);
  void add_reduced(const Tensor& result);
  void publish_gradients();
  void make_gradient_views();
  std::string describe_released(const Storage& storage) const override;
  void bring_back(Storage& storage) override;

  std::string unit_;
  std::vector<UnitParameter> parameters_;
  FlatOptions options_;
  FlatLayout layout_;
  DType master_ = f32, compute_ = f32, gradient_dtype_ = f32, reduce_dtype_ = f32;
  bool trainable_ = false;

  Tensor values_, full_, gradient_, reduced_;
  std::vector<NamedParameter> locals_;
  uint64_t gathered_version_ = 0, rounded_lead_ = 0;
  bool gathered_ = false;
  Work gather_, reduce_;
  Tensor reduce_input_, reduce_output_;  // of the reduction in flight
  bool prepared_ = false, unreduced_ = false, reducing_ = false, has_reduced_ = false;
  // By parameter: reached since the last reduction; the optimizer has its gradient; was trained at the last
  // sync_requires_grad.
  std::vector<bool> reached_, published_, trained_;
  std::function<void(Demand)> demand_handler_;
};

}  // namespace tessera::dist

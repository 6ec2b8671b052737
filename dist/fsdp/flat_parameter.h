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

/// What all flat parameters of a model have in common.
struct FlatOptions {
  StrategyTraits traits;
  std::shared_ptr<Communicator> shard_group;    ///< over which the numbers are cut
  std::shared_ptr<Communicator> replica_group;  ///< over which the shards are repeated; null for one
  /// Of gathered parameters; nothing for their own dtype.
  std::optional<DType> compute = {};
  /// In which gradients travel; nothing for f32 under half types, else the parameters' own.
  std::optional<DType> reduce = {};
  bool keep_reduced_dtype = false;  ///< gradients of half types stay in `reduce`
  int64_t alignment = 16;
};

/// The parameters of a unit that share a dtype and whether they are trained, as one flat array: this rank's
/// shard of it, the whole where it is gathered, and the same two for its gradient. Each original parameter is
/// a view of the whole (the module's own Variable), and one of the shard (what an optimizer gets).
///
///     numbers   master dtype   the shard; of no_shard all
///     whole     compute dtype  gathered, or kept
///     gradient  of the whole   f32 under half types; where backward adds
///     reduced   of the numbers what an optimizer reads
class FlatParameter final : private StorageOwner {
 public:
  /// What a backward asks for when it is not there.
  enum class Demand { numbers, gradient };

  /// Throws ConfigError for a compute dtype that the parameters cannot be gathered in.
  FlatParameter(std::string unit, std::vector<UnitParameter> parameters, const FlatOptions& options);
  FlatParameter(const FlatParameter&) = delete;
  FlatParameter& operator=(const FlatParameter&) = delete;
  ~FlatParameter() override;

  const FlatLayout& layout() const { return layout_; }
  const std::vector<UnitParameter>& parameters() const { return parameters_; }
  bool is_trainable() const { return trainable_; }
  DType gradient_dtype() const { return gradient_dtype_; }
  DType reduce_dtype() const { return reduce_dtype_; }
  /// Of parameter i: what an optimizer gets. After `materialize` only.
  const NamedParameter& local(size_t i) const { return locals_[i]; }
  bool is_materialized() const { return !locals_.empty(); }

  /// Makes the shard and fills it from the recorded programs, or, for parameters that have numbers already,
  /// with those; from then on the modules' Variables are views of the whole.
  void materialize(Device device, uint64_t seed);

  /// Calls `bring` when a backward is about to read the whole, or to write the gradient of the whole, and it
  /// is not there.
  void on_demand(std::function<void(Demand)> bring) { bring_ = std::move(bring); }

  // What is trained may change after sharding: the module's Variable, or its local part, is frozen or
  // unfrozen.

  /// Makes each Variable and its local part agree, the one that changed prevailing. True when any did.
  bool follow_requires_grad();
  /// Whether gradients are wanted of parameters that were all frozen so far.
  bool is_unfrozen() const;
  /// Readies a frozen one for gradients.
  void make_trainable();

  // Parameters.

  /// Whether the whole is there, with the numbers of the shards as they are now.
  bool is_gathered() const;
  /// Starts to gather the whole. Throws OutOfMemoryError naming the unit and the bytes.
  void start_gather();
  void wait_gather();
  /// Frees the gathered whole, where the strategy allows it.
  void release_whole();
  /// Returns when no other rank reads this one's numbers any more: before they are written.
  void settle();
  /// All numbers in the master dtype, gathered into memory of their own.
  Tensor gather_numbers() const;
  /// Makes the modules' Variables views of `whole`, laid out as `gather_numbers` gives it; or, undefined,
  /// views of the gathered parameters again.
  void show(const Tensor& whole);
  /// Writes this rank's part of an array as `gather_numbers` gives it into the numbers.
  void set_numbers(const Tensor& whole);

  // Gradients.

  /// Gives memory for the gradient of the whole; without, `materialize` takes its own. Gradients that wait to
  /// be reduced are brought there with the reduction.
  void set_gradient_memory(const Tensor& memory);
  /// Readies the memory in which backward adds. Does nothing when gradients of an earlier backward wait there
  /// to be reduced.
  void prepare_gradient();
  /// Gradients that nobody marked as unreduced are none: the memory is readied again when asked for.
  void forget_unfinished();
  /// After a backward that an exception ended: waits for what is in flight, and drops all gradients that the
  /// optimizer has not got yet, those of earlier micro-batches too.
  void abandon();
  /// Forgets what is known of the gradient of parameter i: also what waits on this rank to be reduced.
  void clear_gradient(size_t i);
  /// Gradients were added that no other rank has seen; where no backward asked for their memory, none were.
  void mark_unreduced() { unreduced_ = prepared_; }
  bool has_unreduced() const { return unreduced_; }
  /// Whether parameter i has a gradient that waits to be reduced.
  bool waits(size_t i) const { return unreduced_ && parameters_[i].variable.grad().defined(); }
  /// Some rank's backward has reached parameter i since the last reduction: the optimizer gets its gradient.
  void set_reached(size_t i) { reached_[i] = true; }
  /// Starts the reduction of all parameters' gradients over the ranks; of those that this rank's backward did
  /// not reach, zeros. The optimizer gets none of those that no rank's did.
  void start_reduce();
  /// Returns when it is done: the optimizer's gradients are there, added to those of earlier reductions that
  /// nobody has cleared, and the memory of `prepare_gradient` is free where the strategy allows it.
  void finish_reduce();
  /// Brings the gradient of parameter i to its place in the memory of the whole; zeros, if backward did not
  /// reach it.
  void collect_gradient(size_t i);
  /// The memory of the whole was averaged over the ranks in place (no_shard): what an optimizer reads is
  /// there. If no rank `reached` these parameters, what earlier backwards left.
  void accept_averaged(bool reached);

 private:
  bool is_mixed() const { return master_ != compute_; }
  int shard() const { return options_.shard_group->rank(); }
  CallOptions call(Traffic traffic) const { return {.unit = unit_, .traffic = traffic}; }
  void choose_dtypes();
  void make_numbers(Device device);
  void fill_numbers(uint64_t seed);
  void fill_part(size_t i, const Tensor& out, int64_t first, uint64_t seed) const;
  void make_views();
  Tensor view_of_parameter(const Tensor& whole, size_t i) const;
  uint64_t lead() const;
  void round_whole();
  bool is_rounded() const;
  Tensor own_part(const Tensor& whole) const;
  Tensor gradient_buffer(size_t i) const;
  void recall_reduced();
  void keep_reduced_apart();
  Tensor empty_gradient_shard() const;
  Tensor reduced_part(size_t i) const;
  void start_scatter(const Tensor& source);
  void add_reduced(const Tensor& result);
  void publish();
  void make_gradient_views();
  std::string describe_released(const Storage& storage) const override;
  void bring_back(Storage& storage) override;

  std::string unit_;
  std::vector<UnitParameter> parameters_;
  FlatOptions options_;
  FlatLayout layout_;
  DType master_ = f32, compute_ = f32, gradient_dtype_ = f32, reduce_dtype_ = f32;
  bool trainable_ = false;

  Tensor numbers_, whole_, gradient_, reduced_;
  std::vector<NamedParameter> locals_;
  uint64_t gathered_version_ = 0, rounded_lead_ = 0;
  bool gathered_ = false;
  Work gather_, reduce_;
  Tensor sent_, received_;  // of a reduction in flight
  bool prepared_ = false, unreduced_ = false, reducing_ = false, has_reduced_ = false;
  // By parameter: reached since the last reduction; the optimizer has a gradient of it; it was trained when
  // last looked at.
  std::vector<bool> reached_, given_, trained_;
  std::function<void(Demand)> bring_;
};

}  // namespace tessera::dist

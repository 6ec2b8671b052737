#pragma once  // internal

#include <string>
#include <vector>

#include "dist/fsdp/message_calls.h"
#include "tensor/memory/storage_owner.h"

namespace tessera::dist {

class FlatParameter;

/// The gradients of a FlatParameter, from the backward that accumulates them to the optimizer that reads
/// them.
///
///     buffer    f32 under half types   of the full parameters; where backward accumulates
///     reduced   the same dtype         of this rank's shard, averaged; what an optimizer reads
class FlatGradient final : private StorageOwner {
 public:
  /// Of `flat`, which must outlive it.
  explicit FlatGradient(const FlatParameter& flat);
  FlatGradient(const FlatGradient&) = delete;
  FlatGradient& operator=(const FlatGradient&) = delete;
  ~FlatGradient() override;

  /// Of the gradients that backward accumulates and that the optimizer reads.
  DType dtype() const { return dtype_; }
  /// Of the gradients that are sent in a reduction.
  DType reduce_dtype() const { return reduce_dtype_; }

  /// Sets the gradient buffer; without it `attach` allocates one. Gradients not reduced yet are moved there
  /// by the reduction.
  void set_buffer(const Tensor& buffer);
  /// The gradient buffer, undefined before `attach`.
  const Tensor& buffer() const { return buffer_; }
  /// Makes ranges of the buffer the gradient buffers of the parameters.
  void attach();
  /// Prepares the buffer for a backward. Does nothing while it holds gradients of an earlier
  /// backward that are not reduced yet.
  void prepare();
  /// Drops gradients that were not marked as unreduced. The buffer is prepared again at its next use.
  void drop_unmarked();
  /// After a backward that an exception ended: waits for calls in flight and drops all gradients that the
  /// optimizer has not received yet, those of earlier micro-batches too.
  void abandon();
  /// As a backward ends by an exception: where the optimizer reads the module's Variables, these have the
  /// gradients of completed backwards again, and none of this one, which are not averaged. Waits for nothing.
  void restore_published();
  /// Clears the gradient of parameter i, also what this rank has not reduced yet.
  void clear(size_t i);
  /// Marks gradients as accumulated and not reduced. There are none if the buffer was not prepared.
  void mark_unreduced() { unreduced_ = prepared_; }
  /// Whether gradients are marked as unreduced.
  bool has_unreduced() const { return unreduced_; }
  /// Whether parameter i has a gradient that is not reduced yet.
  bool has_unreduced(size_t i) const;
  /// Notes that some rank's backward reached parameter i: the optimizer receives its gradient.
  void set_reached(size_t i) { reached_[i] = true; }
  /// Starts the reduction of all gradients over the ranks. Parameters that this rank's backward did not reach
  /// contribute zeros. The optimizer receives no gradient of a parameter that no rank reached.
  void start_reduce();
  /// Returns when the reduction is done and the optimizer has its gradients, added to those of earlier
  /// reductions that were not cleared. Frees the buffer where the strategy allows it.
  void finish_reduce();
  /// Copies the gradient of parameter i to its place in the buffer, unless it lies there; writes zeros if
  /// backward did not reach the parameter.
  void collect(size_t i);
  /// Whether the squares of reduced gradients are summed as the reduction ends, and noted at each range that
  /// norms sum (`ShardReducer`), so that these do not read it again. Not on a device.
  /// @{
  void take_squares(bool wanted) { takes_squares_ = wanted; }
  bool takes_squares() const { return takes_squares_ && buffer_.defined() && buffer_.device().is_cpu(); }
  /// @}
  /// Appends the ranges of parameter i in `gradients`, those that are not empty: under no_shard an array like
  /// the buffer and the ranges of all shards, else an array like the shard and its range.
  void append_ranges(size_t i, const Tensor& gradients, std::vector<Tensor>& ranges) const;
  /// Under no_shard, after the buffer was averaged over the ranks in place: gives the optimizer its
  /// gradients. If no rank `reached` these parameters, those of earlier backwards.
  void accept_averaged(bool reached);

 private:
  Tensor range_of(size_t i) const;
  void zero_padding() const;
  void find_cleared();
  void move_reduced();
  Tensor empty_shard() const;
  Tensor reduced_range(size_t i) const;
  bool reduces_full() const;
  void start_reduce_scatter(const Tensor& source);
  void add_reduced(const Tensor& result);
  void publish();
  void note_squares();
  std::string describe_released(const Storage& storage) const override;
  void ensure_values(Storage& storage) override;

  const FlatParameter& flat_;
  DType dtype_ = f32, reduce_dtype_ = f32;
  Tensor buffer_, reduced_;
  MessageCalls reduce_;
  Tensor reduce_input_, reduce_output_;  // of the reduction in flight
  bool prepared_ = false, unreduced_ = false, reducing_ = false, has_reduced_ = false;
  bool takes_squares_ = false;
  std::vector<bool> reached_;    // by parameter: reached since the last reduction
  std::vector<bool> published_;  // by parameter: the optimizer has its gradient
};

}  // namespace tessera::dist

#include "dist/fsdp/flat_gradient.h"

#include <algorithm>

#include "dist/fsdp/flat_parameter.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/training/multi_tensor.h"

namespace tessera::dist {

FlatGradient::FlatGradient(const FlatParameter& flat) : flat_(flat) {
  const FlatOptions& options = flat.options();
  const DType compute = flat.compute_dtype();
  const bool half = size_of(compute) == 2;
  reduce_dtype_ = options.reduce.value_or(half ? f32 : compute);
  const bool narrow = options.keep_reduced_dtype && size_of(reduce_dtype_) == 2;
  dtype_ = narrow ? reduce_dtype_ : half ? f32 : compute;
  reached_.resize(flat.parameters().size());
  published_.resize(flat.parameters().size());
}

FlatGradient::~FlatGradient() {
  if (!buffer_.defined()) return;
  set_owner(*buffer_.storage(), nullptr);
  buffer_.storage()->set_label(flat_.describe_destroyed("gradients"));
}

// The buffer.

void FlatGradient::attach() {
  if (!buffer_.defined()) {
    const CategoryScope category(MemoryCategory::gradient);
    buffer_ =
        flat_.options().shard_group->empty({flat_.layout().numel()}, dtype_, Storage::Initial::released);
    buffer_.storage()->set_label(text("the gradients of unit '", flat_.unit(), "'"));
    set_owner(*buffer_.storage(), this);
  }
  for (size_t i = 0; i < flat_.parameters().size(); ++i) {
    const Variable& parameter = flat_.parameters()[i].variable;
    parameter.set_grad_dtype(dtype_);
    parameter.set_gradient_buffer(range_of(i));
    parameter.impl()->has_external_gradient_buffer = true;
  }
}

void FlatGradient::set_buffer(const Tensor& buffer) {
  buffer_ = buffer;
  if (!flat_.is_materialized()) return;
  attach();
  if (!prepared_) return;
  buffer_.storage()->refill();
  zero_padding();
}

void FlatGradient::zero_padding() const {
  for (const FlatLayout::Range& gap : flat_.layout().padding())
    buffer_.narrow(0, gap.begin, gap.numel()).zero();
}

bool FlatGradient::has_unreduced(size_t i) const {
  return unreduced_ && flat_.parameters()[i].variable.grad().defined();
}

void FlatGradient::ensure_values(Storage&) {
  flat_.demand(FlatParameter::Demand::gradient);
}

std::string FlatGradient::describe_released(const Storage&) const {
  return text(
      "a gradient of unit '", flat_.unit(), "' (", flat_.parameter_names(),
      ") was read outside of backward: read the gradients of module.parameters(), this rank's shards");
}

Tensor FlatGradient::range_of(size_t i) const {
  return buffer_.narrow(0, flat_.layout().offset(i), flat_.layout().size(i))
      .view(flat_.parameters()[i].variable.shape());
}

void FlatGradient::prepare() {
  if (!flat_.is_trainable() || prepared_) return;
  prepared_ = true;
  if (has_reduced_) find_cleared();
  for (const UnitParameter& parameter : flat_.parameters()) parameter.variable.set_grad({});
  buffer_.storage()->refill();
  zero_padding();
}

void FlatGradient::drop_unmarked() {
  // The buffer may be used before it is prepared again: nothing may be added to them.
  if (prepared_ && !unreduced_ && flat_.options().traits.shards_gradients)
    for (const UnitParameter& parameter : flat_.parameters()) parameter.variable.set_grad({});
  prepared_ = unreduced_;
}

/// An optimizer may have cleared the gradients of earlier reductions, all or those of its own parameters.
void FlatGradient::find_cleared() {
  for (size_t i = 0; i < flat_.parameters().size(); ++i)
    published_[i] = flat_.local(i).variable.grad().defined();
  has_reduced_ = std::any_of(published_.begin(), published_.end(), [](bool published) { return published; });
  if (!has_reduced_) return;
  for (size_t i = 0; i < flat_.parameters().size(); ++i)
    if (!published_[i]) reduced_range(i).zero();
  if (reduced_.shares_storage(buffer_)) move_reduced();
}

/// Copies the reduced gradients out of the buffer that the next backward writes.
void FlatGradient::move_reduced() {
  const CategoryScope category(MemoryCategory::gradient);
  reduced_ = reduced_.clone();
  if (flat_.options().traits.shards_optimizer) publish();
}

void FlatGradient::clear(size_t i) {
  if (!prepared_) return;
  flat_.parameters()[i].variable.set_grad({});
  published_[i] = false;
  if (has_reduced_) reduced_range(i).zero();
}

void FlatGradient::collect(size_t i) {
  const Variable& variable = flat_.parameters()[i].variable;
  const Variable gradient = variable.grad();
  const Tensor buffer = range_of(i);
  if (!gradient.defined())
    buffer.zero();
  else if (gradient.value().raw_data() != buffer.raw_data())
    buffer.copy_from(ops::cast(gradient.value(), dtype_));
  variable.set_grad({});
}

void FlatGradient::accept_averaged(bool reached) {
  prepared_ = unreduced_ = false;
  if (reached) add_reduced(buffer_);
  if (has_reduced_) publish();
  if (has_reduced_ && !reduced_.shares_storage(buffer_))
    note_squares();  // `Buckets` notes those of the buffer
}

void FlatGradient::start_reduce() {
  prepare();
  for (size_t i = 0; i < flat_.parameters().size(); ++i) collect(i);
  unreduced_ = false;
  reducing_ = true;
  const CategoryScope category(MemoryCategory::communication);
  Tensor source = buffer_;
  if (reduce_dtype_ != dtype_) {
    source = flat_.options().shard_group->empty({flat_.layout().numel()}, reduce_dtype_);
    ops::cast_out(buffer_, source);
  }
  reduce_input_ = source;
  const bool has_shard = flat_.options().traits.shards_optimizer || flat_.options().replica_group;
  if (has_shard && !reduces_full()) return start_reduce_scatter(source);
  if (has_shard) reduce_output_ = flat_.own_shard(source);
  reduce_ = start_average(*flat_.options().shard_group, source, flat_.options().messages.reduce_elements,
                          flat_.call(Traffic::gradients));
}

/// Whether the ranks of the shard group reduce the full gradients, of which each keeps its shard.
bool FlatGradient::reduces_full() const {
  return flat_.options().messages.reduces_by_all_reduce(flat_.layout().shards());
}

/// With replicas in memory that the other ranks of the replica group can read.
Tensor FlatGradient::empty_shard() const {
  if (flat_.options().replica_group)
    return flat_.options().replica_group->empty({flat_.layout().shard_numel()}, dtype_);
  return Tensor::empty({flat_.layout().shard_numel()}, dtype_);
}

void FlatGradient::start_reduce_scatter(const Tensor& source) {
  // In place where the full gradient is kept; else into the optimizer's gradient, if that is empty.
  reduce_output_ = flat_.own_shard(source);
  if (flat_.options().traits.shards_gradients && !has_reduced_ && source.shares_storage(buffer_)) {
    const CategoryScope category(MemoryCategory::gradient);
    if (!reduced_.defined()) reduced_ = empty_shard();
    reduce_output_ = reduced_;
  }
  reduce_ = start_average_shard(*flat_.options().shard_group, reduce_output_, source,
                                flat_.options().messages.reduce_elements, flat_.call(Traffic::gradients));
}

void FlatGradient::finish_reduce() {
  if (!reducing_) return;
  reduce_.wait();
  const FlatOptions& options = flat_.options();
  const bool is_full = !options.traits.shards_optimizer;
  const int64_t limit = options.messages.reduce_elements;
  if (options.replica_group && reduce_output_.defined())
    start_average(*options.replica_group, reduce_output_, limit, flat_.call(Traffic::gradients)).wait();
  if (options.replica_group && is_full) {
    Gather gather(*options.shard_group, reduce_input_, reduce_output_,
                  {.limit = limit, .broadcasts = limit < flat_.layout().shards()},
                  flat_.call(Traffic::gradients));
    gather.start();
    gather.wait();
  }
  const Tensor& result = is_full ? reduce_input_ : reduce_output_;
  add_reduced(result);
  reduce_input_ = reduce_output_ = Tensor();
  if (flat_.options().traits.shards_gradients) buffer_.storage()->release();
  reducing_ = prepared_ = false;
  reduced_.bump_version();  // a collective does not
  publish();
  note_squares();
}

void FlatGradient::append_ranges(size_t i, const Tensor& gradients, std::vector<Tensor>& ranges) const {
  const FlatLayout& layout = flat_.layout();
  const auto append = [&](int64_t first, int64_t numel) {
    if (numel > 0) ranges.push_back(gradients.narrow(0, first, numel));
  };
  if (flat_.options().traits.shards_optimizer)
    return append(layout.range_offset(i, flat_.shard()), flat_.local(i).variable.numel());
  for (int shard = 0; shard < layout.shards(); ++shard) {
    const FlatLayout::Range range = layout.range(i, shard);
    append(layout.offset(i) + range.begin, range.numel());
  }
}

/// Of the gradients that the optimizer has.
void FlatGradient::note_squares() {
  if (!takes_squares()) return;
  std::vector<Tensor> ranges;
  for (size_t i = 0; i < flat_.parameters().size(); ++i)
    if (published_[i]) append_ranges(i, reduced_, ranges);
  const Tensor sums = ops::power_sums(ranges, 2.0);
  for (size_t i = 0; i < ranges.size(); ++i) ranges[i].note_squares(sums.data<double>()[i]);
}

void FlatGradient::abandon() {
  if (!flat_.is_trainable()) return;
  reduce_.wait();
  reduce_input_ = reduce_output_ = Tensor();
  if (flat_.options().traits.shards_gradients) buffer_.storage()->release();
  reducing_ = unreduced_ = false;
  drop_unmarked();
  std::fill(reached_.begin(), reached_.end(), false);
}

void FlatGradient::restore_published() {
  if (!prepared_ || flat_.options().traits.shards_optimizer) return;
  for (size_t i = 0; i < flat_.parameters().size(); ++i) {
    const Variable& variable = flat_.local(i).variable;
    variable.set_grad(has_reduced_ && published_[i] ? Variable(reduced_range(i).view(variable.shape()))
                                                    : Variable());
  }
}

/// Adds `result` to the optimizer's gradient, or makes it that gradient.
void FlatGradient::add_reduced(const Tensor& result) {
  const CategoryScope category(MemoryCategory::gradient);
  if (has_reduced_) {
    ops::add_(reduced_, ops::cast(result, dtype_));
    return;
  }
  has_reduced_ = true;
  if (flat_.options().traits.shards_gradients) {
    if (!reduced_.defined()) reduced_ = empty_shard();
  } else {
    reduced_ = flat_.options().traits.shards_optimizer ? flat_.own_shard(buffer_) : buffer_;
  }
  if (result.raw_data() != reduced_.raw_data()) ops::cast_out(result, reduced_);
}

/// Gives the optimizer views of the gradients of all parameters that a backward has reached.
void FlatGradient::publish() {
  for (size_t i = 0; i < flat_.parameters().size(); ++i) {
    if (reached_[i]) published_[i] = true;
    reached_[i] = false;
    if (!published_[i]) continue;
    const Variable& local = flat_.local(i).variable;
    local.set_grad(reduced_range(i).view(local.shape()));
  }
}

Tensor FlatGradient::reduced_range(size_t i) const {
  const bool is_full = !flat_.options().traits.shards_optimizer;
  return reduced_.narrow(0,
                         is_full ? flat_.layout().offset(i) : flat_.layout().range_offset(i, flat_.shard()),
                         flat_.local(i).variable.numel());
}

}  // namespace tessera::dist

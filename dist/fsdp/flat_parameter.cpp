#include "dist/fsdp/flat_parameter.h"

#include <algorithm>
#include <cstring>

#include "tensor/error.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/cast.h"

namespace tessera::dist {

FlatParameter::FlatParameter(std::string unit, std::vector<UnitParameter> parameters,
                             const FlatOptions& options)
    : unit_(std::move(unit)), parameters_(std::move(parameters)), options_(options) {
  std::vector<int64_t> sizes;
  for (const UnitParameter& parameter : parameters_) sizes.push_back(parameter.variable.numel());
  layout_ = FlatLayout(sizes, options.shard_group->size(), options.alignment);
  const Variable& first = parameters_.front().variable;
  master_ = first.dtype();
  trainable_ = first.requires_grad();
  reached_.resize(parameters_.size());
  published_.resize(parameters_.size());
  trained_.assign(parameters_.size(), trainable_);
  choose_dtypes();
}

FlatParameter::~FlatParameter() {
  for (const Tensor& memory : {full_, gradient_}) {
    if (!memory.defined()) continue;
    set_owner(*memory.storage(), nullptr);
    set_awaited(*memory.storage(), false);
  }
}

void FlatParameter::choose_dtypes() {
  compute_ = is_floating(master_) ? options_.compute.value_or(master_) : master_;
  const bool half = size_of(compute_) == 2;
  require<ConfigError>(compute_ == master_ || (master_ == f32 && half), "shard: the parameters of unit '",
                       unit_, "' are ", master_,
                       ": expected that compute dtype, or bf16 or f16 for f32 parameters, got ", compute_);
  reduce_dtype_ = options_.reduce.value_or(half ? f32 : compute_);
  const bool narrow = options_.keep_reduced_dtype && size_of(reduce_dtype_) == 2;
  gradient_dtype_ = narrow ? reduce_dtype_ : half ? f32 : compute_;
}

// Values.

void FlatParameter::materialize(Device device, uint64_t seed) {
  allocate_values(device);
  fill_values(seed);
  make_views();
}

void FlatParameter::allocate_values(Device device) {
  require<DeviceError>(device.is_cpu(), "unit '", unit_, "': expected the CPU for sharded parameters, got ",
                       device);
  const StrategyTraits& traits = options_.traits;
  Communicator& group = *options_.shard_group;
  {
    const CategoryScope category(traits.shards_parameters ? MemoryCategory::communication
                                                          : MemoryCategory::parameter);
    full_ = group.empty({layout_.numel()}, compute_,
                        traits.shards_parameters ? Storage::Born::released : Storage::Born::filled);
    full_.storage()->set_label(text("the parameters of unit '", unit_, "'"));
    set_owner(*full_.storage(), this);
    if (!traits.shards_parameters) full_.zero();
    gathered_ = !traits.shards_parameters;
  }
  if (!traits.shards_parameters && !is_mixed()) {
    values_ = traits.shards_optimizer ? own_shard(full_) : full_;
    return;
  }
  const CategoryScope category(traits.shards_parameters ? MemoryCategory::parameter
                                                        : MemoryCategory::optimizer_state);
  values_ = group.empty({traits.shards_optimizer ? layout_.shard_numel() : layout_.numel()}, master_);
  values_.storage()->set_label(text("this rank's shard of unit '", unit_, "'"));
  values_.zero();
}

/// Fills `out` with elements first, first + 1, ... of parameter i: its values, or else those of its program.
void FlatParameter::fill_range(size_t i, const Tensor& out, int64_t first, uint64_t seed) const {
  const UnitParameter& parameter = parameters_[i];
  const Variable& variable = parameter.variable;
  if (!variable.value().is_meta()) {
    out.copy_from(variable.value().reshape({-1}).narrow(0, first, out.numel()));
    return;
  }
  require<ConfigError>(parameter.program, "materialize: '", parameter.name,
                       "' was declared without an initialiser");
  const uint64_t key = init::parameter_key(seed, parameter.key_name);
  if (!parameter.program->needs_whole()) {
    parameter.program->fill(out, key, variable.shape(), first);
    return;
  }
  const Tensor all = Tensor::empty(variable.shape(), variable.dtype());
  parameter.program->fill(all, key, variable.shape());
  out.copy_from(all.view({-1}).narrow(0, first, out.numel()));
}

void FlatParameter::fill_values(uint64_t seed) {
  const StrategyTraits& traits = options_.traits;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    // Every rank fills full parameters by itself, so nothing is sent.
    if (!traits.shards_optimizer || (!traits.shards_parameters && !is_mixed())) {
      const Tensor& all = traits.shards_optimizer ? full_ : values_;
      fill_range(i, all.narrow(0, layout_.offset(i), layout_.size(i)), 0, seed);
      continue;
    }
    const FlatLayout::Range range = layout_.range(i, shard());
    if (range.numel() > 0)
      fill_range(i, values_.narrow(0, layout_.range_offset(i, shard()), range.numel()), range.begin, seed);
    if (!traits.shards_parameters) {
      const Tensor all = Tensor::empty({layout_.size(i)}, master_);
      fill_range(i, all, 0, seed);
      ops::cast_out(all, full_.narrow(0, layout_.offset(i), layout_.size(i)));
    }
  }
  if (!traits.shards_optimizer && is_mixed()) round_values();
  gathered_version_ = values_.version();
}

void FlatParameter::make_views() {
  const bool is_full = !options_.traits.shards_optimizer;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Variable& variable = parameters_[i].variable;
    const Shape shape = variable.shape();
    variable.set_value(parameter_view(full_, i));
    if (is_full) {
      NamedParameter local{parameters_[i].name, variable};
      if (is_mixed()) local.master = values_.narrow(0, layout_.offset(i), layout_.size(i)).view(shape);
      locals_.push_back(local);
      continue;
    }
    const FlatLayout::Range range = layout_.range(i, shard());
    const Tensor mine = values_.narrow(0, layout_.range_offset(i, shard()), range.numel());
    locals_.push_back({.name = parameters_[i].name,
                       .variable = Variable::parameter(mine, trainable_, parameters_[i].name),
                       .shard = ShardOf{shape, range.begin}});
    locals_.back().variable.set_grad_dtype(gradient_dtype_);
  }
  if (trainable_) make_gradient_views();
}

Tensor FlatParameter::parameter_view(const Tensor& full, size_t i) const {
  const Tensor view =
      full.narrow(0, layout_.offset(i), layout_.size(i)).view(parameters_[i].variable.shape());
  // Gathering again does not change the parameter, an optimizer's step does: the version is that of values_.
  return options_.traits.shards_optimizer || !is_mixed() ? view.with_version_of(values_) : view;
}

Tensor FlatParameter::own_shard(const Tensor& full) const {
  return full.narrow(0, shard() * layout_.shard_numel(), layout_.shard_numel());
}

// Gathering.

bool FlatParameter::is_gathered() const {
  return gathered_ && gathered_version_ == values_.version();
}

void FlatParameter::start_gather() {
  if (is_gathered()) return;
  const StrategyTraits& traits = options_.traits;
  if (!traits.shards_optimizer) {
    // The optimizer writes values_ and full_ and raises both versions alike; a loader may write values_ only.
    if (is_mixed() && version_lead() != rounded_lead_) round_values();
    gathered_ = true;
    gathered_version_ = values_.version();
    return;
  }
  wait_for_readers();
  try {
    full_.storage()->refill();
  } catch (const OutOfMemoryError& error) {
    throw OutOfMemoryError(text("gathering unit '", unit_, "' takes ", full_.nbytes(), " bytes on rank ",
                                shard(), " of '", options_.shard_group->name(), "': ", error.what()));
  }
  Tensor input = values_;
  if (is_mixed()) {
    input = own_shard(full_);
    ops::cast_out(values_, input);
  }
  gather_ = options_.shard_group->all_gather(full_, input, call(Traffic::parameters));
  set_awaited(*full_.storage(), true);
  gathered_ = true;
  gathered_version_ = values_.version();
}

/// By how many versions the values are ahead of the full parameters.
uint64_t FlatParameter::version_lead() const {
  return values_.version() - full_.version();
}

void FlatParameter::round_values() {
  ops::cast_out(values_, full_);
  rounded_lead_ = version_lead();
}

/// Whether the full parameters are the rounded values, compared chunk by chunk.
bool FlatParameter::is_rounded() const {
  constexpr int64_t chunk = int64_t{1} << 18;
  for (int64_t first = 0; first < layout_.numel(); first += chunk) {
    const int64_t count = std::min(chunk, layout_.numel() - first);
    const Tensor rounded = ops::cast(values_.narrow(0, first, count), compute_);
    if (std::memcmp(rounded.raw_data(), full_.narrow(0, first, count).raw_data(),
                    static_cast<size_t>(rounded.nbytes())) != 0)
      return false;
  }
  return true;
}

void FlatParameter::wait_gather() {
  gather_.wait_output();
  set_awaited(*full_.storage(), false);
}

void FlatParameter::release_full() {
  if (!options_.traits.shards_parameters || !gathered_) return;
  wait_gather();
  if (is_mixed()) wait_for_readers();  // other ranks read this rank's shard out of full_
  full_.storage()->release();
  gathered_ = false;
}

void FlatParameter::wait_for_readers() {
  gather_.wait();
  if (full_.defined()) set_awaited(*full_.storage(), false);
}

Tensor FlatParameter::gather_values() const {
  if (!options_.traits.shards_optimizer) return values_;
  const CategoryScope category(MemoryCategory::communication);
  const Tensor all = options_.shard_group->empty({layout_.numel()}, master_);
  options_.shard_group->all_gather(all, values_, call(Traffic::parameters)).wait();
  return all;
}

void FlatParameter::show_values(const Tensor& all) {
  // Under no_shard the values themselves were shown and may have been changed. If they were not, full_ is not
  // written, so that values saved in forward stay valid.
  if (!all.defined() && !options_.traits.shards_optimizer && is_mixed() && !is_rounded()) round_values();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Variable& variable = parameters_[i].variable;
    const Shape shape = variable.shape();
    variable.set_value(all.defined() ? all.narrow(0, layout_.offset(i), layout_.size(i)).view(shape)
                                     : parameter_view(full_, i));
    if (trainable_) variable.set_grad_dtype(gradient_dtype_);
  }
}

void FlatParameter::set_values(const Tensor& all) {
  wait_for_readers();
  const Tensor mine = options_.traits.shards_optimizer ? own_shard(all) : all;
  if (!mine.shares_storage(values_)) values_.copy_from(mine);
  values_.bump_version();
}

// Gradients.

Tensor FlatParameter::gradient_buffer(size_t i) const {
  return gradient_.narrow(0, layout_.offset(i), layout_.size(i)).view(parameters_[i].variable.shape());
}

void FlatParameter::prepare_gradient() {
  if (!trainable_ || prepared_) return;
  prepared_ = true;
  if (has_reduced_) find_cleared();
  for (const UnitParameter& parameter : parameters_) parameter.variable.set_grad({});
  gradient_.storage()->refill();
  for (const FlatLayout::Range& gap : layout_.padding()) gradient_.narrow(0, gap.begin, gap.numel()).zero();
}

void FlatParameter::drop_unmarked() {
  // Their memory may be used before it is prepared again: nothing may be added to them.
  if (prepared_ && !unreduced_ && options_.traits.shards_gradients)
    for (const UnitParameter& parameter : parameters_) parameter.variable.set_grad({});
  prepared_ = unreduced_;
}

/// An optimizer may have cleared the gradients of earlier reductions, all or those of its own parameters.
void FlatParameter::find_cleared() {
  for (size_t i = 0; i < locals_.size(); ++i) published_[i] = locals_[i].variable.grad().defined();
  has_reduced_ = std::any_of(published_.begin(), published_.end(), [](bool published) { return published; });
  if (!has_reduced_) return;
  for (size_t i = 0; i < locals_.size(); ++i)
    if (!published_[i]) reduced_range(i).zero();
  if (reduced_.shares_storage(gradient_)) move_reduced();
}

/// Copies the reduced gradients out of the memory that the next backward writes.
void FlatParameter::move_reduced() {
  const CategoryScope category(MemoryCategory::gradient);
  reduced_ = reduced_.clone();
  if (options_.traits.shards_optimizer) publish_gradients();
}

void FlatParameter::clear_gradient(size_t i) {
  if (!prepared_) return;
  parameters_[i].variable.set_grad({});
  published_[i] = false;
  if (has_reduced_) reduced_range(i).zero();
}

void FlatParameter::collect_gradient(size_t i) {
  const Variable& variable = parameters_[i].variable;
  const Variable gradient = variable.grad();
  const Tensor buffer = gradient_buffer(i);
  if (!gradient.defined())
    buffer.zero();
  else if (gradient.value().raw_data() != buffer.raw_data())
    buffer.copy_from(ops::cast(gradient.value(), gradient_dtype_));
  variable.set_grad({});
}

void FlatParameter::accept_averaged(bool reached) {
  prepared_ = unreduced_ = false;
  if (reached) add_reduced(gradient_);
  if (has_reduced_) publish_gradients();
}

void FlatParameter::start_reduce() {
  prepare_gradient();
  for (size_t i = 0; i < parameters_.size(); ++i) collect_gradient(i);
  unreduced_ = false;
  reducing_ = true;
  const CategoryScope category(MemoryCategory::communication);
  Tensor source = gradient_;
  if (reduce_dtype_ != gradient_dtype_) {
    source = options_.shard_group->empty({layout_.numel()}, reduce_dtype_);
    ops::cast_out(gradient_, source);
  }
  reduce_input_ = source;
  if (options_.traits.shards_optimizer || options_.replica_group)
    start_reduce_scatter(source);
  else
    reduce_ = options_.shard_group->all_reduce(source, Reduction::avg, call(Traffic::gradients));
}

/// With replicas in memory that the other ranks of the replica group can read.
Tensor FlatParameter::empty_gradient_shard() const {
  if (options_.replica_group) return options_.replica_group->empty({layout_.shard_numel()}, gradient_dtype_);
  return Tensor::empty({layout_.shard_numel()}, gradient_dtype_);
}

void FlatParameter::start_reduce_scatter(const Tensor& source) {
  // In place where the full gradient is kept; else straight into the optimizer's gradient, if that is empty.
  reduce_output_ = own_shard(source);
  if (options_.traits.shards_gradients && !has_reduced_ && source.shares_storage(gradient_)) {
    const CategoryScope category(MemoryCategory::gradient);
    if (!reduced_.defined()) reduced_ = empty_gradient_shard();
    reduce_output_ = reduced_;
  }
  reduce_ =
      options_.shard_group->reduce_scatter(reduce_output_, source, Reduction::avg, call(Traffic::gradients));
}

void FlatParameter::finish_reduce() {
  if (!reducing_) return;
  reduce_.wait();
  const bool is_full = !options_.traits.shards_optimizer;
  if (options_.replica_group && reduce_output_.defined())
    options_.replica_group->all_reduce(reduce_output_, Reduction::avg, call(Traffic::gradients)).wait();
  if (options_.replica_group && is_full)
    options_.shard_group->all_gather(reduce_input_, reduce_output_, call(Traffic::gradients)).wait();
  const Tensor& result = is_full ? reduce_input_ : reduce_output_;
  add_reduced(result);
  reduce_input_ = reduce_output_ = Tensor();
  if (options_.traits.shards_gradients) gradient_.storage()->release();
  reducing_ = prepared_ = false;
  publish_gradients();
}

void FlatParameter::abandon() {
  if (!trainable_) return;
  reduce_.wait();
  reduce_input_ = reduce_output_ = Tensor();
  if (options_.traits.shards_gradients) gradient_.storage()->release();
  reducing_ = unreduced_ = false;
  drop_unmarked();
  std::fill(reached_.begin(), reached_.end(), false);
}

/// Adds `result` to the optimizer's gradient, or makes it that gradient.
void FlatParameter::add_reduced(const Tensor& result) {
  const CategoryScope category(MemoryCategory::gradient);
  if (has_reduced_) {
    ops::add_(reduced_, ops::cast(result, gradient_dtype_));
    return;
  }
  has_reduced_ = true;
  if (options_.traits.shards_gradients) {
    if (!reduced_.defined()) reduced_ = empty_gradient_shard();
  } else {
    reduced_ = options_.traits.shards_optimizer ? own_shard(gradient_) : gradient_;
  }
  if (result.raw_data() != reduced_.raw_data()) ops::cast_out(result, reduced_);
}

/// Gives the optimizer views of the gradients of all parameters that a backward has reached.
void FlatParameter::publish_gradients() {
  for (size_t i = 0; i < locals_.size(); ++i) {
    if (reached_[i]) published_[i] = true;
    reached_[i] = false;
    if (!published_[i]) continue;
    const Variable& local = locals_[i].variable;
    local.set_grad(reduced_range(i).view(local.shape()));
  }
}

Tensor FlatParameter::reduced_range(size_t i) const {
  const bool is_full = !options_.traits.shards_optimizer;
  return reduced_.narrow(0, is_full ? layout_.offset(i) : layout_.range_offset(i, shard()),
                         locals_[i].variable.numel());
}

}  // namespace tessera::dist

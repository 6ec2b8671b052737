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
  given_.resize(parameters_.size());
  trained_.assign(parameters_.size(), trainable_);
  choose_dtypes();
}

FlatParameter::~FlatParameter() {
  for (const Tensor& memory : {whole_, gradient_}) {
    if (!memory.defined()) continue;
    set_owner(*memory.storage(), nullptr);
    set_awaited(*memory.storage(), false);
  }
}

void FlatParameter::choose_dtypes() {
  compute_ = is_floating(master_) ? options_.compute.value_or(master_) : master_;
  const bool half = size_of(compute_) == 2;
  require<ConfigError>(
      compute_ == master_ || (master_ == f32 && half), "shard: parameters of unit '", unit_, "' are ",
      master_, "; they can be computed with as they are, or f32 ones in bf16 or f16, not in ", compute_);
  reduce_dtype_ = options_.reduce.value_or(half ? f32 : compute_);
  const bool narrow = options_.keep_reduced_dtype && size_of(reduce_dtype_) == 2;
  gradient_dtype_ = narrow ? reduce_dtype_ : half ? f32 : compute_;
}

// Numbers.

void FlatParameter::materialize(Device device, uint64_t seed) {
  make_numbers(device);
  fill_numbers(seed);
  make_views();
}

void FlatParameter::make_numbers(Device device) {
  require<DeviceError>(device.is_cpu(), "unit '", unit_, "': sharded parameters live on the CPU, got ",
                       device);
  const StrategyTraits& traits = options_.traits;
  Communicator& group = *options_.shard_group;
  {
    const CategoryScope category(traits.shards_parameters ? MemoryCategory::communication
                                                          : MemoryCategory::parameter);
    whole_ = group.empty({layout_.numel()}, compute_,
                         traits.shards_parameters ? Storage::Born::released : Storage::Born::filled);
    whole_.storage()->set_label(text("the parameters of unit '", unit_, "'"));
    set_owner(*whole_.storage(), this);
    if (!traits.shards_parameters) whole_.zero();
    gathered_ = !traits.shards_parameters;
  }
  if (!traits.shards_parameters && !is_mixed()) {
    numbers_ = traits.shards_optimizer ? own_part(whole_) : whole_;
    return;
  }
  const CategoryScope category(traits.shards_parameters ? MemoryCategory::parameter
                                                        : MemoryCategory::optimizer_state);
  numbers_ = group.empty({traits.shards_optimizer ? layout_.shard_numel() : layout_.numel()}, master_);
  numbers_.storage()->set_label(text("this rank's shard of unit '", unit_, "'"));
  numbers_.zero();
}

/// Elements first, first + 1, ... of parameter i: what it holds already, or what its program gives.
void FlatParameter::fill_part(size_t i, const Tensor& out, int64_t first, uint64_t seed) const {
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

void FlatParameter::fill_numbers(uint64_t seed) {
  const StrategyTraits& traits = options_.traits;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    // Whole ones are filled whole everywhere: nothing need be sent.
    if (!traits.shards_optimizer || (!traits.shards_parameters && !is_mixed())) {
      const Tensor& all = traits.shards_optimizer ? whole_ : numbers_;
      fill_part(i, all.narrow(0, layout_.offset(i), layout_.size(i)), 0, seed);
      continue;
    }
    const FlatLayout::Part part = layout_.part(i, shard());
    if (part.numel() > 0)
      fill_part(i, numbers_.narrow(0, layout_.part_offset(i, shard()), part.numel()), part.begin, seed);
    if (!traits.shards_parameters) {
      const Tensor all = Tensor::empty({layout_.size(i)}, master_);
      fill_part(i, all, 0, seed);
      ops::cast_out(all, whole_.narrow(0, layout_.offset(i), layout_.size(i)));
    }
  }
  if (!traits.shards_optimizer && is_mixed()) round_whole();
  gathered_version_ = numbers_.version();
}

void FlatParameter::make_views() {
  const bool whole = !options_.traits.shards_optimizer;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Variable& variable = parameters_[i].variable;
    const Shape shape = variable.shape();
    variable.set_value(view_of_parameter(whole_, i));
    if (whole) {
      NamedParameter local{parameters_[i].name, variable};
      if (is_mixed()) local.master = numbers_.narrow(0, layout_.offset(i), layout_.size(i)).view(shape);
      locals_.push_back(local);
      continue;
    }
    const FlatLayout::Part part = layout_.part(i, shard());
    const Tensor mine = numbers_.narrow(0, layout_.part_offset(i, shard()), part.numel());
    locals_.push_back({.name = parameters_[i].name,
                       .variable = Variable::parameter(mine, trainable_, parameters_[i].name),
                       .shard = ShardOf{shape, part.begin}});
    locals_.back().variable.set_grad_dtype(gradient_dtype_);
  }
  if (trainable_) make_gradient_views();
}

Tensor FlatParameter::view_of_parameter(const Tensor& whole, size_t i) const {
  const Tensor view =
      whole.narrow(0, layout_.offset(i), layout_.size(i)).view(parameters_[i].variable.shape());
  // Gathering again changes nothing, an optimizer's step does: the version is the numbers' own.
  return options_.traits.shards_optimizer || !is_mixed() ? view.with_version_of(numbers_) : view;
}

Tensor FlatParameter::own_part(const Tensor& whole) const {
  return whole.narrow(0, shard() * layout_.shard_numel(), layout_.shard_numel());
}

// Gathering.

bool FlatParameter::is_gathered() const {
  return gathered_ && gathered_version_ == numbers_.version();
}

void FlatParameter::start_gather() {
  if (is_gathered()) return;
  const StrategyTraits& traits = options_.traits;
  if (!traits.shards_optimizer) {
    // The optimizer writes both, and changes both versions alike; a loader may have written the numbers
    // alone.
    if (is_mixed() && lead() != rounded_lead_) round_whole();
    gathered_ = true;
    gathered_version_ = numbers_.version();
    return;
  }
  settle();
  try {
    whole_.storage()->refill();
  } catch (const OutOfMemoryError& error) {
    throw OutOfMemoryError(text("gathering unit '", unit_, "' takes ", whole_.nbytes(), " bytes on rank ",
                                shard(), " of '", options_.shard_group->name(), "': ", error.what()));
  }
  Tensor input = numbers_;
  if (is_mixed()) {
    input = own_part(whole_);
    ops::cast_out(numbers_, input);
  }
  gather_ = options_.shard_group->all_gather(whole_, input, call(Traffic::parameters));
  set_awaited(*whole_.storage(), true);
  gathered_ = true;
  gathered_version_ = numbers_.version();
}

/// By how many changes the numbers are ahead of what is computed with.
uint64_t FlatParameter::lead() const {
  return numbers_.version() - whole_.version();
}

void FlatParameter::round_whole() {
  ops::cast_out(numbers_, whole_);
  rounded_lead_ = lead();
}

/// Whether what is computed with are the numbers as they are, found a piece at a time.
bool FlatParameter::is_rounded() const {
  constexpr int64_t piece = int64_t{1} << 18;
  for (int64_t first = 0; first < layout_.numel(); first += piece) {
    const int64_t count = std::min(piece, layout_.numel() - first);
    const Tensor rounded = ops::cast(numbers_.narrow(0, first, count), compute_);
    if (std::memcmp(rounded.raw_data(), whole_.narrow(0, first, count).raw_data(),
                    static_cast<size_t>(rounded.nbytes())) != 0)
      return false;
  }
  return true;
}

void FlatParameter::wait_gather() {
  gather_.wait_output();
  set_awaited(*whole_.storage(), false);
}

void FlatParameter::release_whole() {
  if (!options_.traits.shards_parameters || !gathered_) return;
  wait_gather();
  if (is_mixed()) settle();  // others read this rank's part out of the whole
  whole_.storage()->release();
  gathered_ = false;
}

void FlatParameter::settle() {
  gather_.wait();
  if (whole_.defined()) set_awaited(*whole_.storage(), false);
}

Tensor FlatParameter::gather_numbers() const {
  if (!options_.traits.shards_optimizer) return numbers_;
  const CategoryScope category(MemoryCategory::communication);
  const Tensor all = options_.shard_group->empty({layout_.numel()}, master_);
  options_.shard_group->all_gather(all, numbers_, call(Traffic::parameters)).wait();
  return all;
}

void FlatParameter::show(const Tensor& whole) {
  // What is shown of parameters that are whole are the numbers themselves: they may have been changed. If
  // not, what forward saved stays valid.
  if (!whole.defined() && !options_.traits.shards_optimizer && is_mixed() && !is_rounded()) round_whole();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Variable& variable = parameters_[i].variable;
    const Shape shape = variable.shape();
    variable.set_value(whole.defined() ? whole.narrow(0, layout_.offset(i), layout_.size(i)).view(shape)
                                       : view_of_parameter(whole_, i));
    if (trainable_) variable.set_grad_dtype(gradient_dtype_);
  }
}

void FlatParameter::set_numbers(const Tensor& whole) {
  settle();
  const Tensor mine = options_.traits.shards_optimizer ? own_part(whole) : whole;
  if (!mine.shares_storage(numbers_)) numbers_.copy_from(mine);
  numbers_.bump_version();
}

// Gradients.

Tensor FlatParameter::gradient_buffer(size_t i) const {
  return gradient_.narrow(0, layout_.offset(i), layout_.size(i)).view(parameters_[i].variable.shape());
}

void FlatParameter::prepare_gradient() {
  if (!trainable_ || prepared_) return;
  prepared_ = true;
  if (has_reduced_) recall_reduced();
  for (const UnitParameter& parameter : parameters_) parameter.variable.set_grad({});
  gradient_.storage()->refill();
  for (const FlatLayout::Part& gap : layout_.padding()) gradient_.narrow(0, gap.begin, gap.numel()).zero();
}

void FlatParameter::forget_unfinished() {
  // Their memory may be asked for before it is readied again: nothing is added to them.
  if (prepared_ && !unreduced_ && options_.traits.shards_gradients)
    for (const UnitParameter& parameter : parameters_) parameter.variable.set_grad({});
  prepared_ = unreduced_;
}

/// Of what earlier reductions gave, an optimizer may have cleared all, or its own parameters' alone.
void FlatParameter::recall_reduced() {
  for (size_t i = 0; i < locals_.size(); ++i) given_[i] = locals_[i].variable.grad().defined();
  has_reduced_ = std::any_of(given_.begin(), given_.end(), [](bool given) { return given; });
  if (!has_reduced_) return;
  for (size_t i = 0; i < locals_.size(); ++i)
    if (!given_[i]) reduced_part(i).zero();
  if (reduced_.shares_storage(gradient_)) keep_reduced_apart();
}

/// What earlier reductions left lies where the next backward writes: it moves.
void FlatParameter::keep_reduced_apart() {
  const CategoryScope category(MemoryCategory::gradient);
  reduced_ = reduced_.clone();
  if (options_.traits.shards_optimizer) publish();
}

void FlatParameter::clear_gradient(size_t i) {
  if (!prepared_) return;
  parameters_[i].variable.set_grad({});
  given_[i] = false;
  if (has_reduced_) reduced_part(i).zero();
}

void FlatParameter::collect_gradient(size_t i) {
  const Variable& variable = parameters_[i].variable;
  const Variable gradient = variable.grad();
  const Tensor place = gradient_buffer(i);
  if (!gradient.defined())
    place.zero();
  else if (gradient.value().raw_data() != place.raw_data())
    place.copy_from(ops::cast(gradient.value(), gradient_dtype_));
  variable.set_grad({});
}

void FlatParameter::accept_averaged(bool reached) {
  prepared_ = unreduced_ = false;
  if (reached) add_reduced(gradient_);
  if (has_reduced_) publish();
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
  sent_ = source;
  if (options_.traits.shards_optimizer || options_.replica_group)
    start_scatter(source);
  else
    reduce_ = options_.shard_group->all_reduce(source, Reduction::avg, call(Traffic::gradients));
}

/// Where replicas read it of each other, in memory that they see.
Tensor FlatParameter::empty_gradient_shard() const {
  if (options_.replica_group) return options_.replica_group->empty({layout_.shard_numel()}, gradient_dtype_);
  return Tensor::empty({layout_.shard_numel()}, gradient_dtype_);
}

void FlatParameter::start_scatter(const Tensor& source) {
  // In place where the whole gradient stays; else into the optimizer's gradient at once, if that is empty.
  received_ = own_part(source);
  if (options_.traits.shards_gradients && !has_reduced_ && source.shares_storage(gradient_)) {
    const CategoryScope category(MemoryCategory::gradient);
    if (!reduced_.defined()) reduced_ = empty_gradient_shard();
    received_ = reduced_;
  }
  reduce_ = options_.shard_group->reduce_scatter(received_, source, Reduction::avg, call(Traffic::gradients));
}

void FlatParameter::finish_reduce() {
  if (!reducing_) return;
  reduce_.wait();
  const bool whole = !options_.traits.shards_optimizer;
  if (options_.replica_group && received_.defined())
    options_.replica_group->all_reduce(received_, Reduction::avg, call(Traffic::gradients)).wait();
  if (options_.replica_group && whole)
    options_.shard_group->all_gather(sent_, received_, call(Traffic::gradients)).wait();
  const Tensor& result = whole ? sent_ : received_;
  add_reduced(result);
  sent_ = received_ = Tensor();
  if (options_.traits.shards_gradients) gradient_.storage()->release();
  reducing_ = prepared_ = false;
  publish();
}

void FlatParameter::abandon() {
  if (!trainable_) return;
  reduce_.wait();
  sent_ = received_ = Tensor();
  if (options_.traits.shards_gradients) gradient_.storage()->release();
  reducing_ = unreduced_ = false;
  forget_unfinished();
  std::fill(reached_.begin(), reached_.end(), false);
}

/// The optimizer's gradient becomes, or grows by, what came.
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
    reduced_ = options_.traits.shards_optimizer ? own_part(gradient_) : gradient_;
  }
  if (result.raw_data() != reduced_.raw_data()) ops::cast_out(result, reduced_);
}

/// Gives the optimizer its views, of what any backward has reached.
void FlatParameter::publish() {
  for (size_t i = 0; i < locals_.size(); ++i) {
    if (reached_[i]) given_[i] = true;
    reached_[i] = false;
    if (!given_[i]) continue;
    const Variable& local = locals_[i].variable;
    local.set_grad(reduced_part(i).view(local.shape()));
  }
}

Tensor FlatParameter::reduced_part(size_t i) const {
  const bool whole = !options_.traits.shards_optimizer;
  return reduced_.narrow(0, whole ? layout_.offset(i) : layout_.part_offset(i, shard()),
                         locals_[i].variable.numel());
}

}  // namespace tessera::dist

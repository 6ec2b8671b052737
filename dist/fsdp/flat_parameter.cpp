#include "dist/fsdp/flat_parameter.h"

#include <algorithm>
#include <cstring>

#include "tensor/error.h"
#include "tensor/ops/elementwise/cast.h"

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
  trained_.assign(parameters_.size(), trainable_);
  choose_dtypes();
  gradient_ = std::make_unique<FlatGradient>(*this);
}

FlatParameter::~FlatParameter() {
  if (!full_.defined()) return;
  set_owner(*full_.storage(), nullptr);
  set_values_pending(*full_.storage(), false);
  full_.storage()->set_label(describe_destroyed("parameters"));
}

std::string FlatParameter::describe_destroyed(const char* what) const {
  return text(
      "the ", what, " of unit '", unit_, "' (", parameter_names(),
      ") were freed: the sharded model was destroyed before a graph of it ran backward; keep the model "
      "until then");
}

void FlatParameter::choose_dtypes() {
  compute_ = is_floating(master_) ? options_.compute.value_or(master_) : master_;
  const bool half = size_of(compute_) == 2;
  require<ConfigError>(compute_ == master_ || (master_ == f32 && half), "shard: the parameters of unit '",
                       unit_, "' are ", master_,
                       ": expected that compute dtype, or bf16 or f16 for f32 parameters, got ", compute_);
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
                        traits.shards_parameters ? Storage::Initial::released : Storage::Initial::filled);
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

/// Fills `out` with elements first, first + 1, ... of parameter i: its values, or else those of its
/// initialiser.
void FlatParameter::fill_range(size_t i, const Tensor& out, int64_t first, uint64_t seed) const {
  const UnitParameter& parameter = parameters_[i];
  const Variable& variable = parameter.variable;
  if (!variable.value().is_meta()) {
    out.copy_from(variable.value().reshape({-1}).narrow(0, first, out.numel()));
    return;
  }
  require<ConfigError>(parameter.initializer, "materialize: '", parameter.name,
                       "' was declared without an initialiser");
  const uint64_t key = init::parameter_key(seed, parameter.key_name);
  if (!parameter.initializer->needs_full_tensor()) {
    parameter.initializer->fill(out, key, variable.shape(), first);
    return;
  }
  const Tensor all = Tensor::empty(variable.shape(), variable.dtype());
  parameter.initializer->fill(all, key, variable.shape());
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
                       .shard = ShardInfo{shape, range.begin}});
    locals_.back().variable.set_grad_dtype(gradient_->dtype());
  }
  if (trainable_) gradient_->attach();
}

Tensor FlatParameter::parameter_view(const Tensor& full, size_t i) const {
  const Tensor view =
      full.narrow(0, layout_.offset(i), layout_.size(i)).view(parameters_[i].variable.shape());
  // Gathering again does not change the parameter, an optimizer's step does: the version is that of values_.
  return options_.traits.shards_optimizer || !is_mixed() ? view.with_version_of(values_) : view;
}

Tensor FlatParameter::own_shard(const Tensor& full) const {
  return shard_of(full, shard(), layout_.shards());
}

// Gathering.

bool FlatParameter::is_gathered() const {
  return gathered_ && gathered_version_ == values_.version() && gather_.is_started();
}

bool FlatParameter::gathers_by_broadcast() const {
  return options_.messages.gathers_by_broadcast(layout_.shards());
}

Gather FlatParameter::gather_into(const Tensor& all, const Tensor& own) const {
  return Gather(*options_.shard_group, all, own,
                {.limit = options_.messages.gather_elements, .broadcasts = gathers_by_broadcast()},
                call(Traffic::parameters));
}

int64_t FlatParameter::start_gather(int64_t most) {
  if (is_gathered()) return 0;
  if (!options_.traits.shards_optimizer) {
    // The optimizer writes values_ and full_ and raises both versions alike; a loader may write values_ only.
    if (is_mixed() && version_lead() != rounded_lead_) round_values();
    gathered_ = true;
    gathered_version_ = values_.version();
    return 0;
  }
  const int64_t smallest = gathers_by_broadcast() ? 1 : layout_.shards();
  if (most < smallest) return 0;
  const bool was_begun = gathered_ && gathered_version_ == values_.version();
  if (!was_begun) begin_gather();
  return gather_.start(most);
}

/// Allocates the full parameters. No message is started.
void FlatParameter::begin_gather() {
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
  gather_ = gather_into(full_, input);
  set_values_pending(*full_.storage(), true);
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
  set_values_pending(*full_.storage(), false);
}

void FlatParameter::release_full() {
  if (!options_.traits.shards_parameters || !gathered_) return;
  wait_gather();
  // Other ranks may read this rank's shard out of full_.
  if (is_mixed() || gathers_by_broadcast()) wait_for_readers();
  full_.storage()->release();
  gathered_ = false;
}

void FlatParameter::wait_for_readers() {
  gather_.wait();
  if (full_.defined() && gather_.is_started()) set_values_pending(*full_.storage(), false);
}

Tensor FlatParameter::gather_values() const {
  if (!options_.traits.shards_optimizer) return values_;
  const CategoryScope category(MemoryCategory::communication);
  const Tensor all = options_.shard_group->empty({layout_.numel()}, master_);
  Gather gather = gather_into(all, values_);
  gather.start();
  gather.wait();
  // A graph that saves a parameter while these are shown reads the gathered one in backward: the same values.
  while (!is_mixed() && all.version() < values_.version()) all.bump_version();
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
    if (trainable_) variable.set_grad_dtype(gradient_->dtype());
  }
}

void FlatParameter::set_values(const Tensor& all) {
  wait_for_readers();
  const Tensor mine = options_.traits.shards_optimizer ? own_shard(all) : all;
  if (!mine.shares_storage(values_)) values_.copy_from(mine);
  values_.bump_version();
}

// Freezing.

bool FlatParameter::sync_requires_grad() {
  bool changed = false;
  for (size_t i = 0; i < locals_.size(); ++i) {
    const Variable &full = parameters_[i].variable, &local = locals_[i].variable;
    if (full.requires_grad() == trained_[i] && local.requires_grad() == trained_[i]) continue;
    trained_[i] = !trained_[i];
    full.set_requires_grad(trained_[i]);
    local.set_requires_grad(trained_[i]);
    changed = true;
  }
  return changed;
}

bool FlatParameter::is_unfrozen() const {
  return !trainable_ && std::find(trained_.begin(), trained_.end(), true) != trained_.end();
}

void FlatParameter::make_trainable() {
  trainable_ = true;
  gradient_->attach();
}

// Released memory.

void FlatParameter::demand(Demand what) const {
  if (demand_handler_) demand_handler_(what);
}

void FlatParameter::ensure_values(Storage&) {
  demand(Demand::parameters);
}

std::string FlatParameter::parameter_names() const {
  std::string names;
  for (const UnitParameter& parameter : parameters_)
    names += (names.empty() ? "'" : ", '") + parameter.key_name + "'";
  return names;
}

std::string FlatParameter::describe_released(const Storage&) const {
  return text("a parameter of unit '", unit_, "' (", parameter_names(),
              ") was read outside of the unit's calls: it is gathered while a call of the unit's module, or "
              "the backward of one, runs. Call that module, not its `forward` or a child of it, and read the "
              "parameter inside its forward; or keep it gathered by dist::Unsharded, read it in a "
              "dist::SummonFullParams, or choose units such that the module that reads it holds it");
}

}  // namespace tessera::dist

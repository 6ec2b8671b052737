#include "tensor/batched/batched.h"

#include <limits>

namespace tessera {

NoBatchingRule::NoBatchingRule(std::string operation)
    : DeviceError(
          text("vmap: '", operation,
               "' has no batching rule, so it cannot be computed for all samples at once; write the function "
               "for a batch, or run it for one sample after another: vmap(f, {.always_loop = true})")),
      operation_(std::move(operation)) {}

void throw_no_batching_rule(const char* operation) {
  throw NoBatchingRule(operation);
}

namespace batched {
namespace {

thread_local const Scope* innermost = nullptr;

Device device_of(int64_t samples) {
  if (samples > std::numeric_limits<uint16_t>::max()) throw_no_batching_rule("more than 65,535 samples");
  return {.kind = DeviceKind::batched, .samples = static_cast<uint16_t>(samples)};
}

/// A window of the CPU onto the memory of a batched storage, from its first sample to its last.
Tensor window(const Tensor& x, const Shape& shape, const Strides& strides) {
  const intrusive_ptr<Storage>& storage = x.storage();
  const int64_t bytes = storage->nbytes() + storage->sample_stride() * (storage->device().samples - 1);
  return Tensor::over(Storage::wrap(storage->data(), bytes, cpu(), [storage] {}), x.dtype(), shape, strides,
                      x.offset());
}

}  // namespace

Tensor from_dim(const Tensor& x, int64_t dim) {
  dim = normalize_dim(dim, x.ndim(), "vmap");
  const int64_t stride = x.strides()[dim] * size_of(x.dtype());
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.erase(dim);
  strides.erase(dim);
  return Tensor::over(Storage::batched(x.storage(), stride, device_of(x.shape()[dim]).samples), x.dtype(),
                      shape, strides, x.offset())
      .with_version_of(x);
}

Tensor shared(const Tensor& x, int32_t samples) {
  return Tensor::over(Storage::batched(x.storage(), 0, samples), x.dtype(), x.shape(), x.strides(),
                      x.offset())
      .with_version_of(x);
}

Tensor all_samples(const Tensor& x, int32_t samples) {
  if (x.ndim() == Shape::max_ndim) throw_no_batching_rule("an operation on 8 dimensions");
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.insert(0, samples);
  if (!x.device().is_batched()) return x.expand(shape);
  strides.insert(0, x.storage()->sample_stride() / size_of(x.dtype()));
  return window(x, shape, strides);
}

Tensor one_sample(const Tensor& x, int64_t i) {
  if (!x.device().is_batched()) return x;
  const Tensor all = window(x, x.shape(), x.strides());
  return all.as_strided(x.shape(), x.strides(),
                        x.offset() + i * x.storage()->sample_stride() / size_of(x.dtype()));
}

bool is_shared(const Tensor& x) {
  return !x.device().is_batched() || (x.storage()->sample_stride() == 0 && x.storage()->nbytes() > 0);
}

Scope::Scope(int32_t samples, Randomness randomness)
    : samples_(samples), randomness_(randomness), outer_(innermost) {
  innermost = this;
}

Scope::~Scope() {
  innermost = outer_;
}

const Scope* current() {
  return innermost;
}

int32_t current_samples() {
  return innermost ? innermost->samples() : 0;
}

void check_random_draw() {
  require<ValueError>(
      !innermost || innermost->randomness() != Randomness::error,
      "vmap: the function draws random numbers; choose whether those of the samples are different or "
      "the same, by the option {.randomness = Randomness::different} or Randomness::same");
}

Device random_device(Device device) {
  const bool different = innermost && innermost->randomness() == Randomness::different;
  if (!different || innermost->samples() == 0 || !device.is_cpu()) return device;
  return device_of(innermost->samples());
}

void check_draw_for_each_sample(const char* operation, Device device) {
  if (random_device(device) != device) throw_no_batching_rule(operation);
}

}  // namespace batched
}  // namespace tessera

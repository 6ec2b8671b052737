#include "tensor/tensor.h"

#include <cstring>

#include "tensor/batched/rules.h"
#include "tensor/cpu/elementwise/copy.h"
#include "tensor/cuda/backend.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"

namespace tessera {
namespace {
constexpr Kernel<void(const Tensor&, const Tensor&)> copy_kernel{"copy", &kernels::cpu::copy,
                                                                 TESSERA_CUDA_KERNEL(kernels::cuda::copy),
                                                                 batched::together<&kernels::cpu::copy>};
constexpr Kernel<void(const Tensor&)> zero_kernel{"zero", &kernels::cpu::zero,
                                                  TESSERA_CUDA_KERNEL(kernels::cuda::zero),
                                                  batched::together<&kernels::cpu::zero>};
}  // namespace

bool Tensor::layout_is_contiguous(const Shape& shape, const Strides& strides) {
  int64_t expected = 1;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  for (int64_t extent : shape)
    require<ShapeError>(extent >= 0, "a tensor's extents are at least 0, got ", shape);
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  tensor.strides_ = contiguous_strides(shape);
  tensor.numel_ = shape.numel();
  tensor.storage_ =
      Storage::allocate(multiply_sizes(tensor.numel_, size_of(dtype), "bytes of a tensor"), device);
  tensor.version_ = make_intrusive<VersionCounter>();
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  zero_kernel(device, tensor);
  return tensor;
}

Tensor Tensor::over(intrusive_ptr<Storage> storage, DType dtype, const Shape& shape, const Strides& strides,
                    int64_t offset) {
  require<ValueError>(static_cast<bool>(storage), "over: expected a storage, got none");
  Tensor base;
  base.storage_ = std::move(storage);
  base.version_ = make_intrusive<VersionCounter>();
  base.dtype_ = dtype;
  return base.as_strided(shape, strides, offset);
}

namespace {

/// Whether values pass between the CPU and a CUDA device, or between two of those.
bool passes_between(Device a, Device b) {
  const auto has_memory = [](Device device) { return device.is_cpu() || device.is_cuda(); };
  return !(a == b) && has_memory(a) && has_memory(b);
}

}  // namespace

Tensor Tensor::clone() const {
  require_defined("clone");
  Tensor copy = empty_like(*this);
  copy_kernel(device(), *this, copy);
  return copy;
}

Tensor Tensor::contiguous() const {
  require_defined("contiguous");
  return contiguous_ ? *this : clone();
}

Tensor Tensor::to(Device target) const {
  require_defined("to");
  if (device() == target) return *this;
  if (target.is_meta()) return empty(shape_, dtype_, target);
  if (target.is_batched() && device().is_cpu()) return batched::shared(*this, target.samples);
  if (device().is_batched()) throw_no_batching_rule("to");
  if (!is_meta() && !target.is_batched()) {  // one of them is a CUDA device
    const Tensor copied = empty(shape_, dtype_, target);
    cuda_backend::copy(*this, copied);
    return copied;
  }
  throw DeviceError(text("to: cannot copy from ", device(), " to ", target));
}

Tensor Tensor::to(DType dtype) const {
  require_defined("to");
  return ops::cast(*this, dtype);
}

Tensor Tensor::to(Device target, DType dtype) const {
  // The narrower of the two crosses.
  return size_of(dtype) <= size_of(this->dtype()) ? to(dtype).to(target) : to(target).to(dtype);
}

void Tensor::copy_from(const Tensor& source) const {
  const bool crosses = defined() && source.defined() && passes_between(device(), source.device());
  const Device device = crosses ? this->device() : common_device("copy_from", {this, &source});
  require<ShapeError>(source.shape_ == shape_, "copy_from: expected shape ", shape_, ", got ", source.shape_);
  require<DTypeError>(source.dtype_ == dtype_, "copy_from: expected dtype ", dtype_, ", got ", source.dtype_);
  require_distinct_elements("copy_from", *this);
  if (crosses) {
    if (is_contiguous())
      cuda_backend::copy(source, *this);
    else
      copy_kernel(device, source.to(device), *this);
    return bump_version();
  }
  const Overlap overlap = overlap_of(*this, source);
  if (overlap != Overlap::same)
    copy_kernel(device, overlap == Overlap::none ? source : source.clone(), *this);
  bump_version();
}

void Tensor::zero() const {
  require_defined("zero");
  require_distinct_elements("zero", *this);
  zero_kernel(device(), *this);
  bump_version();
}

void Tensor::throw_undefined(const char* method) {
  throw ValueError(text(method, ": the tensor is undefined"));
}

/// What `raw_data` returns where there is no one value of each element.
void* Tensor::data_without_values() const {
  if (device().is_batched()) throw_no_batching_rule("data");
  return storage_->data();
}

void Tensor::throw_not_readable(DType expected) const {
  if (device().is_batched()) throw_no_batching_rule("data");
  if (!device().is_cpu()) throw DeviceError(text("data: expected a tensor on cpu, got ", describe(*this)));
  throw DTypeError(text("data: expected dtype ", expected, ", got ", describe(*this),
                        "; convert it first: x.to(", expected, ")"));
}

namespace {

/// The tensor of one element, on the CPU.
Tensor single_readable(const Tensor& tensor) {
  require<ValueError>(tensor.defined(), "item: the tensor is undefined");
  if (tensor.device().is_batched()) throw_no_batching_rule("item");
  require<ShapeError>(tensor.numel() == 1, "item: expected one element, got ", describe(tensor),
                      "; select one (x[0].item()) or reduce it (x.sum().item())");
  require<DeviceError>(!tensor.is_meta(), "item: expected a tensor with values, got ", describe(tensor),
                       ", without values: materialize the model first (nn::materialize)");
  return tensor.to(cpu());
}

}  // namespace

double Tensor::item() const {
  const Tensor x = single_readable(*this);
  switch (dtype_) {
    case DType::f64:
      return *x.data<double>();
    case DType::f32:
      return *x.data<float>();
    case DType::bf16:
      return static_cast<float>(*x.data<bfloat16>());
    case DType::f16:
      return static_cast<float>(*x.data<float16>());
    default:
      return static_cast<double>(item_i64());
  }
}

int64_t Tensor::item_i64() const {
  const Tensor x = single_readable(*this);
  switch (dtype_) {
    case DType::i64:
      return *x.data<int64_t>();
    case DType::i32:
      return *x.data<int32_t>();
    case DType::u8:
      return *x.data<uint8_t>();
    case DType::boolean:
      return *x.data<bool>();
    default:
      throw DTypeError(text("item_i64: expected an integer or bool tensor, got ", describe(*this)));
  }
}

Description::operator std::string() const {
  if (!tensor_.defined()) return "an undefined tensor";
  return text(tensor_.shape(), " ", tensor_.dtype(), " on ", tensor_.device());
}

}  // namespace tessera

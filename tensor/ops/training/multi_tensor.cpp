#include "tensor/ops/training/multi_tensor.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "tensor/cpu/training/multi_tensor.h"
#include "tensor/cuda/training/multi_tensor.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(std::span<const Tensor>, double, const Tensor&)> power_sums_kernel{
    "power_sums", &kernels::cpu::power_sums, TESSERA_CUDA_KERNEL(kernels::cuda::power_sums)};
constexpr Kernel<void(std::span<const Tensor>, const Tensor&, const Tensor&, const Tensor&)> scale_kernel{
    "scale_in_place", &kernels::cpu::scale_list, TESSERA_CUDA_KERNEL(kernels::cuda::scale_list)};
constexpr Kernel<void(std::span<const Tensor>)> zero_kernel{"zero_in_place", &kernels::cpu::zero_list,
                                                            nullptr};
constexpr Kernel<void(std::span<const Tensor>, double)> clamp_kernel{
    "clamp_in_place", &kernels::cpu::clamp_list, TESSERA_CUDA_KERNEL(kernels::cuda::clamp_list)};

/// Throws when elements of a tensor overlap, or when two contiguous tensors overlap: these are written in
/// place, by several threads at once.
void require_distinct(const char* where, std::span<const Tensor> tensors) {
  std::vector<const Tensor*> in_place;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    require_distinct_elements(where, tensor);
    if (tensor.is_contiguous() && tensor.numel() > 0 && !tensor.is_meta()) in_place.push_back(&tensor);
  }
  std::sort(in_place.begin(), in_place.end(),
            [](const Tensor* a, const Tensor* b) { return std::less<>()(a->raw_data(), b->raw_data()); });
  for (size_t i = 1; i < in_place.size(); ++i) require_no_overlap(where, *in_place[i], {in_place[i - 1]});
}

/// The tensors as kernels take them: contiguous, on one device.
class Contiguous {
 public:
  Contiguous(const char* where, std::span<const Tensor> tensors) : given_(tensors), list_(tensors) {
    const Tensor* first = nullptr;
    bool copies = false;
    for (const Tensor& tensor : tensors) {
      if (!tensor.defined()) continue;
      require_floating(where, tensor);
      if (!first) first = &tensor;
      device_ = common_device(where, {first, &tensor});
      copies |= !tensor.is_contiguous();
    }
    if (!copies) return;
    for (const Tensor& tensor : tensors) copies_.push_back(tensor.defined() ? tensor.contiguous() : Tensor());
    list_ = copies_;
  }

  Device device() const { return device_; }
  std::span<const Tensor> list() const { return list_; }
  /// Whether `list` has tensor i itself, and not a copy of it.
  bool is_in_place(size_t i) const { return given_[i].defined() && given_[i].is_contiguous(); }
  /// Copies changed copies back, and raises the versions.
  void write_back() const {
    for (size_t i = 0; i < given_.size(); ++i) {
      if (!given_[i].defined()) continue;
      if (!given_[i].is_contiguous())
        given_[i].copy_from(list_[i]);
      else
        given_[i].bump_version();
    }
  }

 private:
  std::span<const Tensor> given_, list_;
  std::vector<Tensor> copies_;
  Device device_ = cpu();
};

/// Returns the index of the first tensor with a product that is not finite. With `notes_squares` the sums of
/// squares of the products are noted where that takes no wait.
Tensor scale(const char* where, std::span<const Tensor> tensors, const Tensor& factor, bool notes_squares) {
  require<DTypeError>(factor.defined() && factor.dtype() == f64 && factor.numel() == 1, where,
                      ": expected a factor of one f64, got ", describe(factor));
  require_distinct(where, tensors);
  const Contiguous work(where, tensors);
  const Tensor first_nonfinite = Tensor::empty({}, i64, work.device());
  const Tensor squares =
      notes_squares && work.device().is_cpu() ? Tensor::empty({std::ssize(tensors)}, f64) : Tensor();
  scale_kernel(work.device(), work.list(), factor, first_nonfinite, squares);
  work.write_back();
  for (size_t i = 0; squares.defined() && i < tensors.size(); ++i)
    if (work.is_in_place(i)) tensors[i].note_squares(squares.data<double>()[i]);
  return first_nonfinite;
}

}  // namespace

Tensor power_sums(std::span<const Tensor> tensors, double p) {
  require<ValueError>(p > 0.0, "power_sums: expected p > 0, got ", p);
  const Contiguous work("power_sums", tensors);
  const Tensor sums = Tensor::empty({std::ssize(tensors)}, f64, work.device());
  std::vector<std::optional<double>> noted;
  std::vector<Tensor> others;  // those without a note
  bool any_noted = false;
  if (p == 2.0 && work.device().is_cpu())
    for (size_t i = 0; i < tensors.size(); ++i) {
      noted.push_back(work.is_in_place(i) ? tensors[i].noted_squares() : std::nullopt);
      others.push_back(noted[i] ? Tensor() : work.list()[i]);
      any_noted |= noted[i].has_value();
    }
  power_sums_kernel(work.device(), any_noted ? std::span<const Tensor>(others) : work.list(), p, sums);
  for (size_t i = 0; any_noted && i < noted.size(); ++i)
    if (noted[i]) sums.data<double>()[i] = *noted[i];
  return sums;
}

Tensor scale_and_find_nonfinite(std::span<const Tensor> tensors, const Tensor& factor) {
  return scale("scale_and_find_nonfinite", tensors, factor, true);
}

void scale_in_place(std::span<const Tensor> tensors, const Tensor& factor) {
  scale("scale_in_place", tensors, factor, false);
}

void zero_in_place(std::span<const Tensor> tensors) {
  require_distinct("zero_in_place", tensors);
  const Contiguous work("zero_in_place", tensors);
  if (work.device().is_cpu()) {
    zero_kernel(work.device(), work.list());
    return work.write_back();
  }
  for (const Tensor& tensor : tensors)
    if (tensor.defined()) tensor.zero();
}

void clamp_in_place(std::span<const Tensor> tensors, double limit) {
  require<ValueError>(limit >= 0.0, "clamp_in_place: expected a limit of at least 0, got ", limit);
  require_distinct("clamp_in_place", tensors);
  const Contiguous work("clamp_in_place", tensors);
  clamp_kernel(work.device(), work.list(), limit);
  work.write_back();
}

}  // namespace tessera::ops

#pragma once  // internal

#include <algorithm>
#include <type_traits>

#include "tensor/batched/batched.h"
#include "tensor/profile/operand_bytes.h"

/// The rules by which a kernel of the CPU computes for all samples of a vmap. A Kernel names its rule beside
/// its functions (tensor/ops/kernel.h):
///
///     constexpr Kernel<void(const Tensor&, const Tensor&)> cast_kernel{
///         "cast", &kernels::cpu::cast, nullptr, batched::together<&kernels::cpu::cast>};
///
/// The last Tensor among the arguments is the output, which must not be shared by the samples.
namespace tessera::batched {

namespace detail {
/// Whether T is a struct that carries tensors to a kernel (tensor/profile/operand_bytes.h).
template <class T>
concept CarriesTensors = std::is_class_v<T> && !std::is_same_v<T, Tensor> && requires(const T& argument) {
  operand_bytes(argument);
};
}  // namespace detail

/// The samples among the arguments: of a tensor those of its device, 0 on the CPU and for arguments of other
/// types. A struct of tensors that is an argument has an overload of this function, and one of `of_sample`.
template <class T>
int32_t samples_in(const T& argument) {
  if constexpr (std::is_same_v<T, Tensor>)
    return argument.defined() ? argument.device().samples : 0;
  else
    return 0;
}

/// The argument for one sample.
template <class T>
T of_sample(const T& argument, int64_t i) {
  if constexpr (std::is_same_v<T, Tensor>)
    return argument.defined() ? one_sample(argument, i) : argument;
  else {
    static_assert(!detail::CarriesTensors<T>, "a struct of tensors needs an overload of of_sample");
    return argument;
  }
}

namespace detail {

/// The argument for all samples. Dimensions are counted from the first one of a sample, so each is one
/// further; so are 64-bit integers where `dims` says that they are dimensions.
template <bool dims, class T>
T of_all_samples(const T& argument, int32_t samples) {
  if constexpr (std::is_same_v<T, Tensor>)
    return argument.defined() ? all_samples(argument, samples) : argument;
  else if constexpr (dims && std::is_same_v<T, int64_t>)
    return argument + 1;
  else {
    static_assert(!CarriesTensors<T>, "for a struct of tensors use one_by_one");
    return argument;
  }
}

template <class T>
void find_last(const T& argument, const Tensor*& last) {
  if constexpr (std::is_same_v<T, Tensor>) last = &argument;
}

/// Throws NoBatchingRule unless each sample has an output of its own: an in-place change of something that
/// the samples share.
template <class... Args>
void check_output(const Args&... args) {
  const Tensor* last = nullptr;
  (find_last(args, last), ...);
  if (last && last->defined() && is_shared(*last))
    throw_no_batching_rule("an in-place change of a tensor that all samples share");
}

template <auto kernel>
struct Rule;

template <class... Args, void (*kernel)(Args...)>
struct Rule<kernel> {
  static void reading(Args... args) {
    const int32_t samples = std::max({samples_in(args)...});
    for (int64_t i = 0; i < samples; ++i) kernel(of_sample(args, i)...);
  }
  static void together(Args... args) {
    check_output(args...);
    const int32_t samples = std::max({samples_in(args)...});
    kernel(of_all_samples<false, std::remove_cvref_t<Args>>(args, samples)...);
  }
  static void along(Args... args) {
    check_output(args...);
    const int32_t samples = std::max({samples_in(args)...});
    kernel(of_all_samples<true, std::remove_cvref_t<Args>>(args, samples)...);
  }
  static void one_by_one(Args... args) {
    check_output(args...);
    reading(args...);
  }
};

}  // namespace detail

/// One call with all samples as a further first dimension: for kernels that take any strides and any number
/// of leading dimensions.
template <auto kernel>
constexpr auto together = &detail::Rule<kernel>::together;
/// The same where every int64_t among the arguments is a dimension.
template <auto kernel>
constexpr auto along = &detail::Rule<kernel>::along;
/// One call for each sample: right for every kernel, and without the cost of running the function again.
template <auto kernel>
constexpr auto one_by_one = &detail::Rule<kernel>::one_by_one;
/// The same for a kernel without an output.
template <auto kernel>
constexpr auto reading = &detail::Rule<kernel>::reading;

}  // namespace tessera::batched

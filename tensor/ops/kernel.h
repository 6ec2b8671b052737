#pragma once  // internal

#include <initializer_list>

#include "tensor/arguments/op_names.h"
#include "tensor/batched/batched.h"
#include "tensor/profile/operand_bytes.h"
#include "tensor/profile/span.h"
#include "tensor/tensor.h"
#include "tensor/threads/parallel.h"

/// The kernel of the CUDA backend as an argument of Kernel; null in a build without it.
#ifdef TESSERA_WITH_CUDA
#define TESSERA_CUDA_KERNEL(function) &function
#else
#define TESSERA_CUDA_KERNEL(function) nullptr
#endif

namespace tessera {

template <class Signature>
class Kernel;

/// The kernels of one operation, a plain function pointer per device. A call on meta does nothing: the raw op
/// has made the result with its shape already. A pointer is null where that backend was not built. The kernel
/// runs with denormals flushed to zero (tensor/threads/parallel.h).
///
///     constexpr Kernel<void(const Tensor&, const Tensor&)> kernel{"cast", &kernels::cpu::cast, nullptr};
///     kernel(common_device("cast", {&x, &out}), x, out);
template <class... Args>
class Kernel<void(Args...)> {
 public:
  /// A kernel of one device.
  using Function = void (*)(Args...);
  /// `name`, a literal, names the operation in errors and profiles. `batched` computes for all samples of a
  /// vmap (tensor/batched/rules.h).
  constexpr Kernel(const char* name, Function cpu, Function cuda, Function batched = nullptr)
      : name_(name), cpu_(cpu), cuda_(cuda), batched_(batched) {}

  /// Runs the kernel of `device`. Throws NotBuiltError, naming the operation, where there is none, and
  /// NoBatchingRule on a batched device. Recorded as a span while a profiler is open.
  void operator()(Device device, Args... args) const {
    if (device.is_meta()) return;
    Function function = device.is_cpu() ? cpu_ : device.is_cuda() ? cuda_ : nullptr;
    if (!function) [[unlikely]]
      function = batched_on(device);
    const FlushDenormals flushed;
    if (profiling()) [[unlikely]]
      return call_profiled(function, args...);
    function(args...);
  }
  /// The name given; a span has the first argument's name where that has one, such as a BinaryOp.
  const char* name() const { return name_; }

 private:
  [[gnu::noinline]] Function batched_on(Device device) const {
    if (!device.is_batched()) throw NotBuiltError(text(name_, ": this build has no kernel for ", device));
    if (!batched_) throw_no_batching_rule(name_);
    return batched_;
  }

  [[gnu::noinline]] void call_profiled(Function function, Args... args) const {
    SpanScope span(SpanKind::kernel, span_name(args...));
    span.add_bytes(bytes_of_operands(args...));
    function(args...);
  }

  /// The first argument names the operation where a kernel computes several.
  template <class First, class... Rest>
  const char* span_name(const First& first, const Rest&...) const {
    if constexpr (requires { name_of(first); })
      return name_of(first);
    else
      return name_;
  }

  const char* name_;
  Function cpu_;
  Function cuda_;
  Function batched_;
};

/// The device that operands share. Throws DeviceError naming `where` and the devices when they differ (also
/// for meta with another device, unless `is_planning()`), ValueError for an undefined operand.
Device common_device(const char* where, std::initializer_list<const Tensor*> operands);

/// Throws DTypeError naming `where` unless all operands have the first one's dtype.
void require_same_dtype(const char* where, std::initializer_list<const Tensor*> operands);

/// Throws DTypeError naming `where` unless the operand is f64, f32, bf16 or f16.
void require_floating(const char* where, const Tensor& operand);

}  // namespace tessera

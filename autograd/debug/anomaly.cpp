#include "autograd/debug/anomaly.h"

#include <cmath>

#include "autograd/debug/anomaly_check.h"
#include "tensor/batched/batched.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/reduction.h"

namespace tessera {
namespace {
thread_local bool searching = false;
}

AnomalyMode::AnomalyMode() : previous_(searching) {
  searching = true;
}
AnomalyMode::~AnomalyMode() {
  searching = previous_;
}

namespace detail {

bool anomaly_mode() {
  return searching;
}

int64_t first_nan(const Tensor& values) {
  if (!values.defined() || values.is_meta() || !is_floating(values.dtype())) return -1;
  const Device device = values.device();
  const Tensor all = device.is_batched() ? batched::all_samples(values, device.samples) : values;
  if (device.is_cuda() && ops::any(ops::isnan(all)).item_i64() == 0) return -1;  // one byte is copied
  const Tensor wide = ops::cast(device.is_cuda() ? all.to(cpu()) : all, f64).contiguous();
  const double* elements = wide.data<double>();
  for (int64_t i = 0; i < wide.numel(); ++i)
    if (std::isnan(elements[i])) return i % values.numel();
  return -1;
}

std::string element_name(int64_t index, const Shape& shape) {
  Shape position = shape;
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    position[d] = index % shape[d];
    index /= shape[d];
  }
  return to_string(position);
}

void check_forward(const char* name, const Tensor& output) {
  const int64_t at = first_nan(output);
  require<NonFiniteError>(at < 0, "anomaly: the forward of '", name, "'",
                          current_scope().empty() ? "" : " in '" + current_scope() + "'",
                          " produced NaN at element ", at < 0 ? "" : element_name(at, output.shape()), " of ",
                          describe(output));
}

}  // namespace detail
}  // namespace tessera

#include "tensor/ops/layers/recurrence.h"

#include "tensor/arguments/recurrent_steps.h"
#include "tensor/cpu/recurrent/recurrence.h"
#include "tensor/ops/kernel.h"
#include "tensor/profile/cost.h"

namespace tessera::ops {
namespace {

using kernels::cpu::RecurrenceIncoming;

constexpr Kernel<void(const RecurrentOptions&, const RecurrenceOperands&, const Recurrence&)> forward_kernel{
    "recurrence", &kernels::cpu::recurrence, nullptr};
constexpr Kernel<void(const RecurrentOptions&, const RecurrenceOperands&, const Recurrence&,
                      const RecurrenceIncoming&, const RecurrenceGradients&)>
    backward_kernel{"recurrence_backward", &kernels::cpu::recurrence_backward, nullptr};

/// The sizes of a call. Legend as RecurrenceOperands.
struct Sizes {
  int64_t rows, batch, gates, hidden, features;
};

void check_batch_sizes(const RecurrentOptions& options) {
  require<ValueError>(!options.batch_sizes.empty(), "recurrence: expected at least one step, got none");
  for (size_t t = 0; t < options.batch_sizes.size(); ++t) {
    const int64_t size = options.batch_sizes[t];
    require<ValueError>(size >= 1, "recurrence: batch size ", size, " of step ", t, " is below 1");
    require<ValueError>(t == 0 || size <= options.batch_sizes[t - 1], "recurrence: batch size ", size,
                        " of step ", t, " is larger than ", options.batch_sizes[t - 1],
                        " of the step before");
  }
}

void check_shape(const char* what, const Tensor& x, const Shape& expected, DType dtype) {
  if (!x.defined()) return;
  require<ShapeError>(x.shape() == expected, "recurrence: expected ", what, " of shape ", expected, ", got ",
                      describe(x));
  require<DTypeError>(x.dtype() == dtype, "recurrence: expected ", what, " of ", dtype, ", got ",
                      describe(x));
}

Sizes check(const RecurrentOptions& options, const RecurrenceOperands& o) {
  check_batch_sizes(options);
  require_floating("recurrence", o.inputs);
  const bool is_lstm = options.cell == RecurrentCell::lstm;
  const int64_t gates = gates_of(options.cell);
  require<ShapeError>(o.weight_hh.ndim() == 2 && o.weight_hh.size(0) % gates == 0,
                      "recurrence: expected weight_hh (", gates, " H, P), got ", describe(o.weight_hh));
  const Sizes s{options.rows(), options.batch(), gates, o.weight_hh.size(0) / gates, o.weight_hh.size(1)};
  require<ValueError>(o.c0.defined() || !is_lstm, "recurrence: LSTM takes c0, which is undefined");
  require<ValueError>(is_lstm || !o.c0.defined(), "recurrence: c0 is for LSTM alone");
  require<ValueError>(!o.weight_hr.defined() || is_lstm, "recurrence: projections are for LSTM");
  require<ValueError>(o.weight_hr.defined() || s.features == s.hidden, "recurrence: weight_hh ",
                      o.weight_hh.shape(), " takes a projection to ", s.features,
                      " features, and weight_hr is undefined");
  const DType dtype = o.inputs.dtype();
  check_shape("the inputs' products", o.inputs, {s.rows, gates * s.hidden}, dtype);
  check_shape("weight_hh", o.weight_hh, o.weight_hh.shape(), dtype);
  check_shape("h0", o.h0, {s.batch, s.features}, dtype);
  check_shape("c0", o.c0, {s.batch, s.hidden}, dtype);
  check_shape("bias_ih", o.bias_ih, {gates * s.hidden}, dtype);
  check_shape("bias_hh", o.bias_hh, {gates * s.hidden}, dtype);
  check_shape("weight_hr", o.weight_hr, {s.features, s.hidden}, dtype);
  return s;
}

Device device_of(const RecurrenceOperands& o) {
  Device device = common_device("recurrence", {&o.inputs, &o.h0, &o.weight_hh});
  for (const Tensor* x : {&o.c0, &o.bias_ih, &o.bias_hh, &o.weight_hr})
    if (x->defined()) device = common_device("recurrence", {&o.inputs, x});
  return device;
}

Tensor contiguous(const Tensor& x) {
  return x.defined() ? x.contiguous() : x;
}

RecurrenceOperands contiguous(const RecurrenceOperands& o) {
  return {o.inputs,
          contiguous(o.h0),
          contiguous(o.c0),
          contiguous(o.weight_hh),
          contiguous(o.bias_ih),
          contiguous(o.bias_hh),
          contiguous(o.weight_hr)};
}

int64_t product_flops(const Sizes& s, bool projected) {
  return 2 * s.rows * s.features * (s.gates * s.hidden + (projected ? s.hidden : 0));
}

DType accumulator_dtype(DType dtype) {
  return dtype == f64 ? f64 : f32;
}

}  // namespace

Recurrence recurrence(const RecurrentOptions& options, const RecurrenceOperands& operands) {
  const Sizes s = check(options, operands);
  const Device device = device_of(operands);
  require<ValueError>(operands.inputs.is_contiguous(),
                      "recurrence: expected contiguous products of the inputs, got ",
                      describe(operands.inputs));
  const DType dtype = operands.inputs.dtype();
  const bool is_lstm = options.cell == RecurrentCell::lstm,
             has_extra = is_lstm || options.cell == RecurrentCell::gru;
  Recurrence out;
  out.gates = operands.inputs;
  out.y = has_extra ? Tensor::empty({s.rows, s.features}, dtype, device) : out.gates;
  out.h_n = Tensor::empty({s.batch, s.features}, dtype, device);
  if (is_lstm) out.c_n = Tensor::empty({s.batch, s.hidden}, dtype, device);
  if (has_extra) out.extra = Tensor::empty({s.rows, s.hidden}, accumulator_dtype(dtype), device);
  if (operands.weight_hr.defined()) out.hidden = Tensor::empty({s.rows, s.hidden}, dtype, device);
  count_flops(product_flops(s, operands.weight_hr.defined()));
  forward_kernel(device, options, contiguous(operands), out);
  return out;
}

RecurrenceGradients recurrence_backward(const RecurrentOptions& options, const RecurrenceOperands& operands,
                                        const Recurrence& forward, const Tensor& dy, const Tensor& dh_n,
                                        const Tensor& dc_n, bool overwrite) {
  RecurrenceOperands o = operands;
  o.inputs = forward.gates;
  const Sizes s = check(options, o);
  const Device device = device_of(o);
  const DType dtype = o.inputs.dtype();
  check_shape("the gradient of y", dy, {s.rows, s.features}, dtype);
  check_shape("the gradient of h_n", dh_n, {s.batch, s.features}, dtype);
  check_shape("the gradient of c_n", dc_n, {s.batch, s.hidden}, dtype);
  const bool is_gru = options.cell == RecurrentCell::gru, is_lstm = options.cell == RecurrentCell::lstm;
  const auto like = [&](const Tensor& x, bool over) { return over ? x : Tensor::empty_like(x); };
  RecurrenceGradients out;
  out.gates = like(forward.gates, overwrite && (is_lstm || is_gru));
  if (is_gru) out.extra = like(forward.extra, overwrite);
  if (o.weight_hr.defined()) out.h = Tensor::empty({s.rows, s.features}, dtype, device);
  out.h0 = Tensor::empty({s.batch, s.features}, dtype, device);
  if (is_lstm) out.c0 = Tensor::empty({s.batch, s.hidden}, dtype, device);
  count_flops(product_flops(s, o.weight_hr.defined()));
  backward_kernel(device, options, contiguous(o), forward,
                  {contiguous(dy), contiguous(dh_n), contiguous(dc_n)}, out);
  return out;
}

Tensor recurrence_states_before(const RecurrentOptions& options, const Tensor& y, const Tensor& h0) {
  const Device device = common_device("recurrence_states_before", {&y, &h0});
  const Tensor out = Tensor::empty_like(y);
  if (device.is_meta()) return out;
  for (const RecurrentStep& step : steps_of(options)) {
    const int64_t begun = step.rows - step.continued;
    if (step.continued > 0)
      out.narrow(0, step.row, step.continued).copy_from(y.narrow(0, step.previous, step.continued));
    if (begun > 0)
      out.narrow(0, step.row + step.continued, begun).copy_from(h0.narrow(0, step.continued, begun));
  }
  return out;
}

}  // namespace tessera::ops

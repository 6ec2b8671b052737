// What an operation's operands must be.
#include <algorithm>

#include "tools/cuda_sim/libraries/cudnn/execution/pointwise.h"
#include "tools/cuda_sim/libraries/cudnn/graph/graph.h"

namespace tessera::cuda_sim::cudnn {

namespace {

constexpr cudnnStatus_t bad = CUDNN_STATUS_BAD_PARAM;

Tensor operand(const Descriptor& operation, cudnnBackendAttributeName_t role) {
  const DescriptorPointer part = operation.part(role);
  require(part != nullptr, bad, find_attribute(operation.type, role)->name, " is not set");
  return read_tensor(*part);
}

void check_pointwise(const Descriptor& operation) {
  const DescriptorPointer how = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = how->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const int operands = pointwise_operands(mode);
  require(operands > 0, CUDNN_STATUS_NOT_SUPPORTED, "pointwise mode ", static_cast<int>(mode),
          " is not simulated");
  const bool is_backward = is_pointwise_backward(mode);
  const Tensor x = operand(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  const Tensor y = operand(
      operation, is_backward ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC : CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  const auto check = [&](cudnnBackendAttributeName_t role) {
    const Tensor other = operand(operation, role);
    require(other.dims.size() == x.dims.size(), bad, "pointwise: tensors ", x.uid, " and ", other.uid,
            " have ", x.dims.size(), " and ", other.dims.size(), " dimensions");
  };
  check(is_backward ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC : CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  if (is_backward) check(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC);
  if (operands >= 2 && !is_backward) check(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  if (operands >= 3) check(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  if (mode == CUDNN_POINTWISE_GEN_INDEX) {
    const auto axis = how->get<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
    require(axis >= 0 && axis < static_cast<int64_t>(y.dims.size()), bad, "gen index: expected an axis of ",
            y.dims.size(), " dimensions, got ", axis);
  }
}

void check_matmul(const Descriptor& operation) {
  const Tensor a = operand(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
               b = operand(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC),
               c = operand(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  const size_t rank = a.dims.size();
  require(rank >= 2 && b.dims.size() == rank && c.dims.size() == rank, bad,
          "matmul: a, b and c have different numbers of dimensions");
  require(a.dims[rank - 1] == b.dims[rank - 2] && a.dims[rank - 2] == c.dims[rank - 2] &&
              b.dims[rank - 1] == c.dims[rank - 1],
          bad, "matmul: (", a.dims[rank - 2], ", ", a.dims[rank - 1], ") by (", b.dims[rank - 2], ", ",
          b.dims[rank - 1], ") to (", c.dims[rank - 2], ", ", c.dims[rank - 1], ")");
  for (size_t i = 0; i + 2 < rank; ++i) {
    const int64_t left = a.dims[i], right = b.dims[i], most = std::max(left, right);
    require(left > 0 && right > 0 && most % left == 0 && most % right == 0 && c.dims[i] == most, bad,
            "matmul: batch dimension ", i, " is ", left, ", ", right, " and ", c.dims[i]);
  }
}

void check_reduction(const Descriptor& operation) {
  const Tensor x = operand(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
               y = operand(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  require(x.dims.size() == y.dims.size(), bad, "reduction: x and y have different numbers of dimensions");
  for (size_t i = 0; i < x.dims.size(); ++i)
    require(y.dims[i] > 0 && x.dims[i] % y.dims[i] == 0, bad, "reduction: dimension ", i, " goes from ",
            x.dims[i], " to ", y.dims[i]);
}

void check_convolution(const Descriptor& operation, cudnnBackendAttributeName_t x_role,
                       cudnnBackendAttributeName_t w_role, cudnnBackendAttributeName_t y_role) {
  const Tensor x = operand(operation, x_role), w = operand(operation, w_role), y = operand(operation, y_role);
  const DescriptorPointer how = description_of(operation);
  const auto spatial = static_cast<size_t>(how->get<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  for (const Tensor* one : {&x, &w, &y})
    require(one->dims.size() == spatial + 2, bad, "convolution: expected ", spatial + 2,
            " dimensions, tensor ", one->uid, " has ", one->dims.size());
  require(w.dims[1] > 0 && x.dims[1] > 0 && x.dims[1] % w.dims[1] == 0, bad, "convolution: ", x.dims[1],
          " channels of x are no multiple of the filter's ", w.dims[1]);
  const int64_t groups = x.dims[1] / w.dims[1];
  require(w.dims[0] % groups == 0, bad, "convolution: ", w.dims[0], " filters in ", groups, " groups");
  require(y.dims[0] == x.dims[0] && y.dims[1] == w.dims[0], bad, "convolution: y is (", y.dims[0], ", ",
          y.dims[1], ", ...), expected (", x.dims[0], ", ", w.dims[0], ", ...)");
  const Sizes before = how->all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
              after = how->all<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
              stride = how->all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
              dilation = how->all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t room = x.dims[i + 2] + before[i] + after[i] - dilation[i] * (w.dims[i + 2] - 1) - 1;
    require(room >= 0 && y.dims[i + 2] == room / stride[i] + 1, bad, "convolution: dimension ", i + 2,
            " of y is ", y.dims[i + 2], ", expected ", room < 0 ? 0 : room / stride[i] + 1);
  }
}

void check_reshape(const Descriptor& operation) {
  const Tensor x = operand(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC),
               y = operand(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  require(x.elements() == y.elements(), bad, "reshape: ", x.elements(), " elements to ", y.elements());
}

void check_norm_forward(const Descriptor& operation) {
  const auto mode = operation.get<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_FWD_MODE);
  const bool is_inference = operation.get<cudnnBackendNormFwdPhase_t>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) ==
                            CUDNN_NORM_FWD_INFERENCE;
  require(mode == CUDNN_BATCH_NORM || mode == CUDNN_LAYER_NORM || mode == CUDNN_RMS_NORM ||
              mode == CUDNN_INSTANCE_NORM,
          CUDNN_STATUS_NOT_SUPPORTED, "norm mode ", static_cast<int>(mode), " is not simulated");
  require(is_inference || operation.has(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC), bad,
          "CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC is not set");
  const bool has_running = operation.has(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC);
  for (const auto role : {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
                          CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
                          CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
                          CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC})
    require(operation.has(role) == has_running, bad,
            "running statistics need their inputs, outputs and factor together; ",
            find_attribute(operation.type, role)->name, has_running ? " is not set" : " is set alone");
  require(operand(operation, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC).dims ==
              operand(operation, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC).dims,
          bad, "norm: x and y have different shapes");
}

void check_norm_backward(const Descriptor& operation) {
  const auto mode = operation.get<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_BWD_MODE);
  require(mode == CUDNN_BATCH_NORM || mode == CUDNN_LAYER_NORM || mode == CUDNN_RMS_NORM ||
              mode == CUDNN_INSTANCE_NORM,
          CUDNN_STATUS_NOT_SUPPORTED, "norm mode ", static_cast<int>(mode), " is not simulated");
  require(mode == CUDNN_RMS_NORM || operation.has(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC), bad,
          "CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC is not set");
  require(operation.has(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC), bad,
          "CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC is not set");
  const Sizes shape = operand(operation, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC).dims;
  require(shape == operand(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC).dims &&
              shape == operand(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC).dims,
          bad, "norm: x, dy and dx have different shapes");
}

}  // namespace

void check_operation(const Descriptor& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return check_pointwise(operation);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return check_matmul(operation);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return check_reduction(operation);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return check_reshape(operation);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return check_convolution(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return check_convolution(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return check_convolution(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return check_norm_forward(operation);
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return check_norm_backward(operation);
    default:
      return;
  }
}

}  // namespace tessera::cuda_sim::cudnn

#include "tools/cuda_sim/libraries/cudnn/execution/pointwise.h"

#include <cmath>
#include <limits>

#include "tools/cuda_sim/libraries/cudnn/execution/nodes.h"

namespace tessera::cuda_sim::cudnn {

namespace {

constexpr double root_of_2_over_pi = 0.7978845608028654;
constexpr double root_of_half = 0.7071067811865476;
constexpr double density_at_0 = 0.3989422804014327;  // 1 / sqrt(2 pi)

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double relu(const PointwiseParameters& p, double x) {
  if (std::isnan(x)) return x;
  const double low = x < p.lower_clip ? p.lower_clip + p.slope * (x - p.lower_clip) : x;
  return low > p.upper_clip ? p.upper_clip : low;
}

double tanh_argument(double x) {
  return root_of_2_over_pi * (x + 0.044715 * x * x * x);
}

double forward(cudnnPointwiseMode_t mode, const PointwiseParameters& p, double x) {
  switch (mode) {
    case CUDNN_POINTWISE_ABS:
      return std::fabs(x);
    case CUDNN_POINTWISE_CEIL:
      return std::ceil(x);
    case CUDNN_POINTWISE_COS:
      return std::cos(x);
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_FLOOR:
      return std::floor(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_NEG:
      return -x;
    case CUDNN_POINTWISE_RSQRT:
      return 1 / std::sqrt(x);
    case CUDNN_POINTWISE_SIN:
      return std::sin(x);
    case CUDNN_POINTWISE_SQRT:
      return std::sqrt(x);
    case CUDNN_POINTWISE_TAN:
      return std::tan(x);
    case CUDNN_POINTWISE_ERF:
      return std::erf(x);
    case CUDNN_POINTWISE_RECIPROCAL:
      return 1 / x;
    case CUDNN_POINTWISE_RELU_FWD:
      return relu(p, x);
    case CUDNN_POINTWISE_TANH_FWD:
      return std::tanh(x);
    case CUDNN_POINTWISE_SIGMOID_FWD:
      return sigmoid(x);
    case CUDNN_POINTWISE_ELU_FWD:
      return x > 0 ? x : p.elu_alpha * std::expm1(x);
    case CUDNN_POINTWISE_GELU_FWD:
      return 0.5 * x * (1 + std::erf(x * root_of_half));
    case CUDNN_POINTWISE_SOFTPLUS_FWD:
      return std::log1p(std::exp(-std::fabs(p.softplus_beta * x))) / p.softplus_beta + std::fmax(x, 0);
    case CUDNN_POINTWISE_SWISH_FWD:
      return x * sigmoid(p.swish_beta * x);
    case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
      return 0.5 * x * (1 + std::tanh(tanh_argument(x)));
    case CUDNN_POINTWISE_LOGICAL_NOT:
      return x == 0 ? 1 : 0;
    default:
      return x;  // identity
  }
}

double derivative(cudnnPointwiseMode_t mode, const PointwiseParameters& p, double x) {
  switch (mode) {
    case CUDNN_POINTWISE_RELU_BWD:
      return x < p.lower_clip || x == p.lower_clip ? p.slope : x >= p.upper_clip ? 0 : 1;
    case CUDNN_POINTWISE_TANH_BWD:
      return 1 - std::tanh(x) * std::tanh(x);
    case CUDNN_POINTWISE_SIGMOID_BWD:
      return sigmoid(x) * (1 - sigmoid(x));
    case CUDNN_POINTWISE_ELU_BWD:
      return x > 0 ? 1 : p.elu_alpha * std::exp(x);
    case CUDNN_POINTWISE_GELU_BWD:
      return 0.5 * (1 + std::erf(x * root_of_half)) + x * density_at_0 * std::exp(-0.5 * x * x);
    case CUDNN_POINTWISE_SOFTPLUS_BWD:
      return sigmoid(p.softplus_beta * x);
    case CUDNN_POINTWISE_SWISH_BWD: {
      const double s = sigmoid(p.swish_beta * x);
      return s + p.swish_beta * x * s * (1 - s);
    }
    default: {  // gelu by tanh
      const double t = std::tanh(tanh_argument(x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root_of_2_over_pi * (1 + 3 * 0.044715 * x * x);
    }
  }
}

double binary(cudnnPointwiseMode_t mode, double x, double b) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_ADD_SQUARE:
      return x + b * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_MAX:
      return std::isnan(x) || x > b ? x : b;
    case CUDNN_POINTWISE_MIN:
      return std::isnan(x) || x < b ? x : b;
    case CUDNN_POINTWISE_MOD:
      return std::fmod(x, b);
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_POW:
      return std::pow(x, b);
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_ATAN2:
      return std::atan2(x, b);
    case CUDNN_POINTWISE_CMP_EQ:
      return x == b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_NEQ:
      return x != b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_GT:
      return x > b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_LT:
      return x < b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_LE:
      return x <= b ? 1 : 0;
    case CUDNN_POINTWISE_LOGICAL_AND:
      return x != 0 && b != 0 ? 1 : 0;
    default:
      return x != 0 || b != 0 ? 1 : 0;  // or
  }
}

PointwiseParameters parameters_of(const Descriptor& how) {
  return {
      .lower_clip = how.real(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0),
      .upper_clip = how.real(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, std::numeric_limits<double>::infinity()),
      .slope = how.real(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0),
      .elu_alpha = how.real(CUDNN_ATTR_POINTWISE_ELU_ALPHA, 1),
      .softplus_beta = how.real(CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, 1),
      .swish_beta = how.real(CUDNN_ATTR_POINTWISE_SWISH_BETA, 1)};
}

/// The operand's value for each element of y.
std::vector<double> repeated(const Array& array, const Sizes& dims) {
  if (array.dims == dims) return array.values;
  std::vector<double> values;
  values.reserve(array.values.size());
  for_each_offset(dims, repeating_strides(array.dims, dims),
                  [&](int64_t offset) { values.push_back(array.values[static_cast<size_t>(offset)]); });
  return values;
}

/// The index of each element along an axis.
void fill_index(Array& y, size_t axis) {
  Sizes strides(y.dims.size(), 0);
  strides[axis] = 1;
  size_t next = 0;
  for_each_offset(y.dims, strides, [&](int64_t index) { y.values[next++] = static_cast<double>(index); });
}

}  // namespace

bool is_pointwise_backward(cudnnPointwiseMode_t mode) {
  return mode >= CUDNN_POINTWISE_RELU_BWD && mode <= CUDNN_POINTWISE_GELU_APPROX_TANH_BWD;
}

int pointwise_operands(cudnnPointwiseMode_t mode) {
  const int number = mode;
  if (number == CUDNN_POINTWISE_BINARY_SELECT) return 3;
  if (number == CUDNN_POINTWISE_SQRT || number == CUDNN_POINTWISE_LOGICAL_NOT ||
      number == CUDNN_POINTWISE_GEN_INDEX)
    return 1;
  if (number >= CUDNN_POINTWISE_ADD && number <= CUDNN_POINTWISE_SUB) return 2;
  if (number == CUDNN_POINTWISE_ATAN2) return 2;
  if (number >= CUDNN_POINTWISE_ABS && number <= CUDNN_POINTWISE_RECIPROCAL) return 1;
  if (number >= CUDNN_POINTWISE_RELU_FWD && number <= CUDNN_POINTWISE_GELU_APPROX_TANH_FWD) return 1;
  if (is_pointwise_backward(mode)) return 2;
  if (number >= CUDNN_POINTWISE_CMP_EQ && number <= CUDNN_POINTWISE_CMP_LE) return 2;
  if (number == CUDNN_POINTWISE_LOGICAL_AND || number == CUDNN_POINTWISE_LOGICAL_OR) return 2;
  return 0;
}

double pointwise_value(cudnnPointwiseMode_t mode, const PointwiseParameters& p, double x, double b,
                       double t) {
  if (mode == CUDNN_POINTWISE_BINARY_SELECT) return t != 0 ? x : b;
  if (is_pointwise_backward(mode)) return x * derivative(mode, p, b);
  return pointwise_operands(mode) == 2 ? binary(mode, x, b) : forward(mode, p, x);
}

void run_pointwise(const Node& node, const Graph& graph, NodeValues& values) {
  const auto mode = node.how->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const auto compute = node.how->get<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC);
  const bool is_backward = is_pointwise_backward(mode);
  const int y_index = node.outputs.front().tensor;
  Array y = empty_array(graph, y_index);
  if (mode == CUDNN_POINTWISE_GEN_INDEX) {
    fill_index(y, static_cast<size_t>(node.how->get<int64_t>(CUDNN_ATTR_POINTWISE_AXIS)));
    values.put(y_index, std::move(y));
    return;
  }
  const auto operand = [&](cudnnBackendAttributeName_t role) {
    const int index = node.find(role);
    return index < 0 ? std::vector<double>{} : repeated(values.get(index), y.dims);
  };
  const std::vector<double> x =
      operand(is_backward ? CUDNN_ATTR_OPERATION_POINTWISE_DYDESC : CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  const std::vector<double> b =
      operand(is_backward ? CUDNN_ATTR_OPERATION_POINTWISE_XDESC : CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  const std::vector<double> t = operand(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  const double alpha = node.operation->real(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1),
               beta = node.operation->real(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1);
  const PointwiseParameters parameters = parameters_of(*node.how);
  // A comparison computes in its operands' types; a boolean compute type names the result's.
  const cudnnDataType_t type = compute == CUDNN_DATA_BOOLEAN ? CUDNN_DATA_FLOAT : compute;
  for (size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = rounded(
        pointwise_value(mode, parameters, alpha * x[i], b.empty() ? 0 : beta * b[i], t.empty() ? 0 : t[i]),
        type);
  values.put(y_index, std::move(y));
}

}  // namespace tessera::cuda_sim::cudnn

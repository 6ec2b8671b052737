// Products of matrices, reductions, and views of memory under other dimensions.
#include <cmath>
#include <limits>

#include "tools/cuda_sim/libraries/cudnn/execution/nodes.h"

namespace tessera::cuda_sim::cudnn {

void add_product(const double* a, const double* b, double* c, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t x = 0; x < k; ++x) {
      const double factor = a[i * k + x];
      const double* line = b + x * n;
      double* sums = c + i * n;
      for (int64_t j = 0; j < n; ++j) sums[j] += factor * line[j];
    }
}

void run_matmul(const Node& node, const Graph& graph, NodeValues& values) {
  const Array &a = values.get(node.find(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
              &b = values.get(node.find(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
  const int c_index = node.outputs.front().tensor;
  Array c = empty_array(graph, c_index);
  const size_t rank = c.dims.size();
  const int64_t m = c.dims[rank - 2], n = c.dims[rank - 1], k = a.dims[rank - 1];
  const int64_t matrices = static_cast<int64_t>(c.values.size()) / std::max<int64_t>(m * n, 1);
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    // Fewer heads of one operand serve neighbouring heads of the other.
    int64_t rest = matrix, a_matrix = 0, b_matrix = 0, a_step = 1, b_step = 1;
    for (size_t d = rank - 2; d-- > 0;) {
      const int64_t index = rest % c.dims[d];
      rest /= c.dims[d];
      a_matrix += index / (c.dims[d] / a.dims[d]) * a_step;
      b_matrix += index / (c.dims[d] / b.dims[d]) * b_step;
      a_step *= a.dims[d];
      b_step *= b.dims[d];
    }
    add_product(a.values.data() + a_matrix * m * k, b.values.data() + b_matrix * k * n,
                c.values.data() + matrix * m * n, m, n, k);
  }
  round_all(c, node.how->get<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE));
  values.put(c_index, std::move(c));
}

namespace {

double start_of(cudnnReduceTensorOp_t mode) {
  switch (mode) {
    case CUDNN_REDUCE_TENSOR_MUL:
    case CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
      return 1;
    case CUDNN_REDUCE_TENSOR_MIN:
      return std::numeric_limits<double>::infinity();
    case CUDNN_REDUCE_TENSOR_MAX:
      return -std::numeric_limits<double>::infinity();
    default:
      return 0;
  }
}

double joined(cudnnReduceTensorOp_t mode, double sum, double x) {
  switch (mode) {
    case CUDNN_REDUCE_TENSOR_MUL:
      return sum * x;
    case CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
      return x == 0 ? sum : sum * x;
    case CUDNN_REDUCE_TENSOR_MIN:
      return std::isnan(x) || x < sum ? x : sum;
    case CUDNN_REDUCE_TENSOR_MAX:
      return std::isnan(x) || x > sum ? x : sum;
    case CUDNN_REDUCE_TENSOR_AMAX:
      return std::isnan(x) || std::fabs(x) > sum ? std::fabs(x) : sum;
    case CUDNN_REDUCE_TENSOR_NORM1:
      return sum + std::fabs(x);
    case CUDNN_REDUCE_TENSOR_NORM2:
      return sum + x * x;
    default:
      return sum + x;
  }
}

}  // namespace

void run_reduction(const Node& node, const Graph& graph, NodeValues& values) {
  const auto mode = node.how->get<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
  const Array& x = values.get(node.find(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
  const int y_index = node.outputs.front().tensor;
  Array y = empty_array(graph, y_index);
  std::fill(y.values.begin(), y.values.end(), start_of(mode));
  // An extent of y divides that of x: y's element is that of neighbours in x.
  const size_t rank = x.dims.size();
  Sizes index(rank, 0);
  for (const double value : x.values) {
    int64_t at = 0;
    for (size_t d = 0; d < rank; ++d) at = at * y.dims[d] + index[d] / (x.dims[d] / y.dims[d]);
    double& sum = y.values[static_cast<size_t>(at)];
    sum = joined(mode, sum, value);
    for (size_t d = rank; d-- > 0 && ++index[d] == x.dims[d];) index[d] = 0;
  }
  const double count = static_cast<double>(x.values.size()) / static_cast<double>(y.values.size());
  for (double& value : y.values) {
    if (mode == CUDNN_REDUCE_TENSOR_AVG) value /= count;
    if (mode == CUDNN_REDUCE_TENSOR_NORM2) value = std::sqrt(value);
  }
  round_all(y, node.how->get<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE));
  values.put(y_index, std::move(y));
}

/// y's element at an offset is x's element at that offset: the memory under other dimensions and strides.
void run_reshape(const Node& node, const Graph& graph, NodeValues& values) {
  const int x_index = node.inputs.front().tensor, y_index = node.outputs.front().tensor;
  const Tensor &x = graph.tensors[static_cast<size_t>(x_index)],
               &y = graph.tensors[static_cast<size_t>(y_index)];
  const Array& from = values.get(x_index);
  std::vector<double> memory(static_cast<size_t>(span_bytes(x) / element_bytes(x.type)),
                             std::numeric_limits<double>::quiet_NaN());
  size_t next = 0;
  for_each_offset(x.dims, x.strides,
                  [&](int64_t offset) { memory[static_cast<size_t>(offset)] = from.values[next++]; });
  Array to = empty_array(graph, y_index);
  next = 0;
  for_each_offset(y.dims, y.strides, [&](int64_t offset) {
    const auto at = static_cast<size_t>(offset);
    to.values[next++] = at < memory.size() ? memory[at] : std::numeric_limits<double>::quiet_NaN();
  });
  values.put(y_index, std::move(to));
}

}  // namespace tessera::cuda_sim::cudnn

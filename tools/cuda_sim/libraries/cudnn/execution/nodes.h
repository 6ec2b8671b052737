// One function for each kind of node: it reads its inputs and puts its outputs.
#pragma once

#include <vector>

#include "tools/cuda_sim/libraries/cudnn/execution/array.h"

namespace tessera::cuda_sim::cudnn {

/// The arrays of a graph's tensors, by their index. What is put is rounded to the tensor's type.
class NodeValues {
 public:
  explicit NodeValues(const Graph& graph) : graph_(graph), arrays_(graph.tensors.size()) {}
  const Array& get(int tensor) const { return arrays_[static_cast<size_t>(tensor)]; }
  void put(int tensor, Array&& array) {
    round_all(array, graph_.tensors[static_cast<size_t>(tensor)].type);
    arrays_[static_cast<size_t>(tensor)] = std::move(array);
  }
  /// A value that its tensor's type holds already.
  void put_exact(int tensor, Array&& array) { arrays_[static_cast<size_t>(tensor)] = std::move(array); }

 private:
  const Graph& graph_;
  std::vector<Array> arrays_;
};

/// Zeros in the shape of a tensor.
inline Array empty_array(const Graph& graph, int tensor) {
  const Tensor& shape = graph.tensors[static_cast<size_t>(tensor)];
  return {shape.dims, std::vector<double>(static_cast<size_t>(shape.elements()))};
}

void run_pointwise(const Node& node, const Graph& graph, NodeValues& values);
void run_matmul(const Node& node, const Graph& graph, NodeValues& values);
void run_reduction(const Node& node, const Graph& graph, NodeValues& values);
void run_reshape(const Node& node, const Graph& graph, NodeValues& values);
void run_random(const Node& node, const Graph& graph, NodeValues& values);
void run_convolution(const Node& node, const Graph& graph, NodeValues& values);
void run_norm_forward(const Node& node, const Graph& graph, NodeValues& values);
void run_norm_backward(const Node& node, const Graph& graph, NodeValues& values);

/// c (m, n) += a (m, k) b (k, n), all of them rows.
void add_product(const double* a, const double* b, double* c, int64_t m, int64_t n, int64_t k);

}  // namespace tessera::cuda_sim::cudnn

// Batch, instance, layer and RMS norm, forward and backward.
#include <cmath>

#include "tools/cuda_sim/libraries/cudnn/execution/nodes.h"

namespace tessera::cuda_sim::cudnn {

namespace {

/// The shape of the statistics: what a mode does not average over.
Sizes statistics_shape(cudnnBackendNormMode_t mode, const Sizes& x) {
  Sizes shape(x.size(), 1);
  const bool has_batch = mode != CUDNN_BATCH_NORM,
             has_channels = mode == CUDNN_BATCH_NORM || mode == CUDNN_INSTANCE_NORM;
  if (has_batch) shape[0] = x[0];
  if (has_channels) shape[1] = x[1];
  return shape;
}

/// For each element of x, the index of its element in an array that is repeated to x's shape.
std::vector<size_t> indices(const Sizes& own, const Sizes& x) {
  std::vector<size_t> list;
  for_each_offset(x, repeating_strides(own, x),
                  [&](int64_t offset) { list.push_back(static_cast<size_t>(offset)); });
  return list;
}

size_t count(const Sizes& dims) {
  int64_t elements = 1;
  for (const int64_t extent : dims) elements *= extent;
  return static_cast<size_t>(elements);
}

/// Statistics of layer and RMS norm follow the tensor that receives them, where there is one.
Sizes shape_of(const Graph& graph, const Node& node, cudnnBackendAttributeName_t role,
               const Sizes& otherwise) {
  const Tensor* tensor = graph.tensor(node, role);
  return tensor != nullptr ? tensor->dims : otherwise;
}

double scalar(const NodeValues& values, int index, double otherwise) {
  return index < 0 ? otherwise : values.get(index).values.front();
}

struct Statistics {
  Sizes shape{};
  std::vector<size_t> group{};  ///< of each element of x
  double size = 0;              ///< elements of a group
  std::vector<double> mean{}, variance{}, deviation{};
};

Statistics measure(const Array& x, const Sizes& shape, bool has_mean, double epsilon) {
  Statistics s{.shape = shape, .group = indices(shape, x.dims)};
  const size_t groups = count(shape);
  s.size = static_cast<double>(x.values.size()) / static_cast<double>(groups);
  s.mean.resize(groups);
  s.variance.resize(groups);
  s.deviation.resize(groups);
  if (has_mean)
    for (size_t i = 0; i < x.values.size(); ++i) s.mean[s.group[i]] += x.values[i] / s.size;
  for (size_t i = 0; i < x.values.size(); ++i) {
    const double centred = x.values[i] - s.mean[s.group[i]];
    s.variance[s.group[i]] += centred * centred / s.size;
  }
  for (size_t i = 0; i < groups; ++i) s.deviation[i] = 1 / std::sqrt(s.variance[i] + epsilon);
  return s;
}

/// Running statistics: factor of the new ones, variances over n - 1.
void put_running(const Node& node, const Statistics& s, NodeValues& values) {
  const int mean = node.find(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC);
  if (mean < 0) return;
  const double factor = scalar(values, node.find(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC), 1);
  const double unbiased = s.size > 1 ? s.size / (s.size - 1) : 1;
  Array next_mean = values.get(node.find(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC)),
        next_variance = values.get(node.find(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC));
  for (size_t i = 0; i < s.mean.size(); ++i) {
    next_mean.values[i] = (1 - factor) * next_mean.values[i] + factor * s.mean[i];
    next_variance.values[i] = (1 - factor) * next_variance.values[i] + factor * s.variance[i] * unbiased;
  }
  values.put(mean, std::move(next_mean));
  values.put(node.find(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC), std::move(next_variance));
}

void put_statistics(const Node& node, const Statistics& s, NodeValues& values) {
  if (const int mean = node.find(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC); mean >= 0)
    values.put(mean, Array{s.shape, s.mean});
  if (const int deviation = node.find(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC); deviation >= 0)
    values.put(deviation, Array{s.shape, s.deviation});
}

}  // namespace

void run_norm_forward(const Node& node, const Graph& graph, NodeValues& values) {
  const auto mode = node.operation->get<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_FWD_MODE);
  const bool is_training = node.operation->get<cudnnBackendNormFwdPhase_t>(
                               CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) == CUDNN_NORM_FWD_TRAINING;
  const int mean_index = node.find(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC),
            deviation_index = node.find(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC),
            y_index = node.find(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC),
            bias_index = node.find(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
  const Array &x = values.get(node.find(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC)),
              &scale = values.get(node.find(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC));
  const Sizes shape =
      shape_of(graph, node, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, statistics_shape(mode, x.dims));
  const double epsilon = scalar(values, node.find(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC), 0);
  Statistics s;
  if (is_training || mean_index < 0) {
    s = measure(x, shape, mode != CUDNN_RMS_NORM, epsilon);
    if (is_training) {
      put_statistics(node, s, values);
      put_running(node, s, values);
    }
  } else {
    s = {.shape = shape, .group = indices(shape, x.dims)};
    s.mean = values.get(mean_index).values;
    s.deviation = values.get(deviation_index).values;
  }
  Array y = empty_array(graph, y_index);
  const std::vector<size_t> channel = indices(scale.dims, x.dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const double normal = (x.values[i] - s.mean[s.group[i]]) * s.deviation[s.group[i]];
    y.values[i] =
        normal * scale.values[channel[i]] + (bias_index < 0 ? 0 : values.get(bias_index).values[channel[i]]);
  }
  values.put(y_index, std::move(y));
}

/// dx = deviation (g - mean(g) - normal mean(g normal)), g = dy scale; RMS norm without mean(g).
void run_norm_backward(const Node& node, const Graph& graph, NodeValues& values) {
  const auto mode = node.operation->get<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_BWD_MODE);
  const Array &x = values.get(node.find(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC)),
              &dy = values.get(node.find(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC)),
              &scale = values.get(node.find(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC)),
              &deviation = values.get(node.find(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC));
  const int mean_index = node.find(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC),
            dx_index = node.find(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC),
            d_scale_index = node.find(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC),
            d_bias_index = node.find(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC);
  const bool has_mean = mode != CUDNN_RMS_NORM;
  const std::vector<size_t> group = indices(deviation.dims, x.dims), channel = indices(scale.dims, x.dims);
  const double size = static_cast<double>(x.values.size()) / static_cast<double>(deviation.values.size());
  const size_t elements = x.values.size();
  std::vector<double> normal(elements), mean_g(deviation.values.size()),
      mean_product(deviation.values.size());
  Array d_scale{scale.dims, std::vector<double>(scale.values.size())}, d_bias = d_scale;
  for (size_t i = 0; i < elements; ++i) {
    const double mean = has_mean ? values.get(mean_index).values[group[i]] : 0;
    normal[i] = (x.values[i] - mean) * deviation.values[group[i]];
    const double g = dy.values[i] * scale.values[channel[i]];
    mean_g[group[i]] += has_mean ? g / size : 0;
    mean_product[group[i]] += g * normal[i] / size;
    d_scale.values[channel[i]] += dy.values[i] * normal[i];
    d_bias.values[channel[i]] += dy.values[i];
  }
  Array dx = empty_array(graph, dx_index);
  for (size_t i = 0; i < elements; ++i)
    dx.values[i] = deviation.values[group[i]] * (dy.values[i] * scale.values[channel[i]] - mean_g[group[i]] -
                                                 normal[i] * mean_product[group[i]]);
  values.put(dx_index, std::move(dx));
  if (d_scale_index >= 0) values.put(d_scale_index, std::move(d_scale));
  if (d_bias_index >= 0) values.put(d_bias_index, std::move(d_bias));
}

}  // namespace tessera::cuda_sim::cudnn

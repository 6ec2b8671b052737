// Convolutions, normalizations and single operations as graphs.
#pragma once

#include "tests/cuda_sim/libraries/cudnn_graphs/graph.h"

namespace cudnn_graphs {

/// x (N, C, spatial...), w (K, C / groups, spatial...), y (N, K, spatial...).
struct Convolution {
  Sizes x{2, 8, 10, 10}, w{16, 8, 3, 3};
  ConvolutionSizes sizes{.padding = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  bool channels_inside = true;
  int64_t alignment = 16;
  bool bias = false, relu = false, add = false;
  cudnnDataType_t out = static_cast<cudnnDataType_t>(-1);  ///< -1: `type`
  Sizes y_shape() const;
  Sizes strides(const Sizes& dims) const { return channels_inside ? channels_last(dims) : packed(dims); }
};

struct ConvolutionIds {
  Id x, w, y, bias = 0, added = 0;
};

inline Sizes Convolution::y_shape() const {
  Sizes y{x[0], w[0]};
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    const int64_t after = sizes.post_padding.empty() ? sizes.padding[i] : sizes.post_padding[i];
    const int64_t extent = x[i + 2] + sizes.padding[i] + after - sizes.dilation[i] * (w[i + 2] - 1) - 1;
    y.push_back(extent / sizes.stride[i] + 1);
  }
  return y;
}

/// relu(x * w + bias + added), what is absent left out.
inline ConvolutionIds convolution_forward(Graph& g, const Convolution& c) {
  const Sizes y_shape = c.y_shape();
  const cudnnDataType_t out = static_cast<int>(c.out) == -1 ? c.type : c.out;
  const auto place = [&](const Sizes& dims, cudnnDataType_t type) {
    return g.tensor(dims, c.strides(dims), {.type = type, .alignment = c.alignment});
  };
  ConvolutionIds ids{place(c.x, c.type), place(c.w, c.type), place(y_shape, out)};
  const bool has_epilogue = c.bias || c.relu || c.add;
  const auto between = [&] { return g.tensor(y_shape, c.strides(y_shape), {.is_virtual = true}); };
  Id last = has_epilogue ? between() : ids.y;
  g.convolution(ids.x, ids.w, last, c.sizes);
  const auto then = [&](cudnnPointwiseMode_t mode, Id other, bool is_last) {
    const Id next = is_last ? ids.y : between();
    g.pointwise(mode, last, other, next);
    last = next;
  };
  if (c.bias) {
    Sizes shape(c.x.size(), 1);
    shape[1] = c.w[0];
    ids.bias = place(shape, c.type);
    then(CUDNN_POINTWISE_ADD, ids.bias, !c.relu && !c.add);
  }
  if (c.add) {
    ids.added = place(y_shape, c.type);
    then(CUDNN_POINTWISE_ADD, ids.added, !c.relu);
  }
  if (c.relu) then(CUDNN_POINTWISE_RELU_FWD, 0, true);
  return ids;
}

/// `x` is dx, or `w` is dw.
/// @{
inline ConvolutionIds convolution_data_gradient(Graph& g, const Convolution& c) {
  const auto place = [&](const Sizes& dims) {
    return g.tensor(dims, c.strides(dims), {.type = c.type, .alignment = c.alignment});
  };
  const ConvolutionIds ids{place(c.x), place(c.w), place(c.y_shape())};
  g.convolution_data_gradient(ids.y, ids.w, ids.x, c.sizes);
  return ids;
}
inline ConvolutionIds convolution_filter_gradient(Graph& g, const Convolution& c) {
  const cudnnDataType_t out = static_cast<int>(c.out) == -1 ? c.type : c.out;
  const auto place = [&](const Sizes& dims, cudnnDataType_t type) {
    return g.tensor(dims, c.strides(dims), {.type = type, .alignment = c.alignment});
  };
  const ConvolutionIds ids{place(c.x, c.type), place(c.w, out), place(c.y_shape(), c.type)};
  g.convolution_filter_gradient(ids.y, ids.x, ids.w, c.sizes);
  return ids;
}
/// @}

/// A normalization of x: batch norm over (N, spatial...), layer norm over all but N.
struct Norm {
  cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
  Sizes x{4, 8, 6, 6};
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16, parameter_type = CUDNN_DATA_FLOAT;
  bool channels_inside = true, running = true;
  Sizes parameter_shape() const {
    Sizes shape(x.size(), 1);
    if (mode == CUDNN_BATCH_NORM)
      shape[1] = x[1];
    else
      for (size_t i = 1; i < x.size(); ++i) shape[i] = x[i];
    return shape;
  }
  Sizes statistics_shape() const {
    Sizes shape(x.size(), 1);
    shape[mode == CUDNN_BATCH_NORM ? 1 : 0] = x[mode == CUDNN_BATCH_NORM ? 1 : 0];
    return shape;
  }
  Sizes strides(const Sizes& dims) const { return channels_inside ? channels_last(dims) : packed(dims); }
};

struct NormIds {
  Id x, y, scale, bias, mean, deviation, epsilon, factor = 0;
  Id running_mean = 0, running_variance = 0, next_mean = 0, next_variance = 0;
  Id dy = 0, dx = 0, d_scale = 0, d_bias = 0;
};

inline NormIds norm_tensors(Graph& g, const Norm& n) {
  const auto place = [&](const Sizes& dims, cudnnDataType_t type) {
    return g.tensor(dims, n.strides(dims), {.type = type});
  };
  NormIds ids{};
  ids.x = place(n.x, n.type);
  ids.scale = place(n.parameter_shape(), n.parameter_type);
  ids.mean = place(n.statistics_shape(), CUDNN_DATA_FLOAT);
  ids.deviation = place(n.statistics_shape(), CUDNN_DATA_FLOAT);
  return ids;
}

inline NormIds norm_training(Graph& g, const Norm& n) {
  const auto place = [&](const Sizes& dims, cudnnDataType_t type) {
    return g.tensor(dims, n.strides(dims), {.type = type});
  };
  NormIds ids = norm_tensors(g, n);
  ids.y = place(n.x, n.type);
  ids.bias = place(n.parameter_shape(), n.parameter_type);
  ids.epsilon = g.scalar(n.x.size());
  if (n.mode != CUDNN_BATCH_NORM || !n.running) {
    g.norm_forward(n.mode, CUDNN_NORM_FWD_TRAINING,
                   {{CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, ids.x},
                    {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, ids.y},
                    {CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, ids.scale},
                    {CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, ids.bias},
                    {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, ids.mean},
                    {CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, ids.deviation},
                    {CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, ids.epsilon}});
    return ids;
  }
  ids.factor = g.scalar(n.x.size());
  for (Id* one : {&ids.running_mean, &ids.running_variance, &ids.next_mean, &ids.next_variance})
    *one = place(n.statistics_shape(), CUDNN_DATA_FLOAT);
  g.norm_forward(n.mode, CUDNN_NORM_FWD_TRAINING,
                 {{CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, ids.x},
                  {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, ids.y},
                  {CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, ids.scale},
                  {CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, ids.bias},
                  {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, ids.mean},
                  {CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, ids.deviation},
                  {CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, ids.epsilon},
                  {CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, ids.factor},
                  {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, ids.running_mean},
                  {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, ids.running_variance},
                  {CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, ids.next_mean},
                  {CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, ids.next_variance}});
  return ids;
}

/// (x - mean) deviation scale + bias, as four pointwise operations.
inline NormIds norm_inference(Graph& g, const Norm& n) {
  const auto between = [&] { return g.tensor(n.x, n.strides(n.x), {.is_virtual = true}); };
  NormIds ids = norm_tensors(g, n);
  ids.bias = g.tensor(n.parameter_shape(), n.strides(n.parameter_shape()), {.type = n.parameter_type});
  ids.y = g.tensor(n.x, n.strides(n.x), {.type = n.type});
  const Id centred = between(), normal = between(), scaled = between();
  g.pointwise(CUDNN_POINTWISE_SUB, ids.x, ids.mean, centred);
  g.pointwise(CUDNN_POINTWISE_MUL, centred, ids.deviation, normal);
  g.pointwise(CUDNN_POINTWISE_MUL, normal, ids.scale, scaled);
  g.pointwise(CUDNN_POINTWISE_ADD, scaled, ids.bias, ids.y);
  return ids;
}

inline NormIds norm_gradient(Graph& g, const Norm& n) {
  const auto place = [&](const Sizes& dims, cudnnDataType_t type) {
    return g.tensor(dims, n.strides(dims), {.type = type});
  };
  NormIds ids = norm_tensors(g, n);
  ids.dy = place(n.x, n.type);
  ids.dx = place(n.x, n.type);
  ids.d_scale = place(n.parameter_shape(), n.parameter_type);
  ids.d_bias = place(n.parameter_shape(), n.parameter_type);
  g.norm_backward(n.mode, {{CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, ids.x},
                           {CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, ids.dy},
                           {CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, ids.scale},
                           {CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, ids.mean},
                           {CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, ids.deviation},
                           {CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, ids.dx},
                           {CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, ids.d_scale},
                           {CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, ids.d_bias}});
  return ids;
}

}  // namespace cudnn_graphs

// Convolutions of 1 to 3 spatial dimensions and both gradients, by the windows of x as columns: one product
// for each image and group.
#include <algorithm>
#include <array>

#include "tools/cuda_sim/libraries/cudnn/execution/nodes.h"

namespace tessera::cuda_sim::cudnn {

namespace {

using Extents = std::array<int64_t, 3>;

/// The last spatial dimensions, the others neutral.
Extents spatial(const Sizes& values, size_t skip, int64_t neutral) {
  Extents extents{neutral, neutral, neutral};
  const size_t count = values.size() - skip;
  for (size_t i = 0; i < count; ++i) extents[3 - count + i] = values[skip + i];
  return extents;
}

int64_t product(const Extents& extents) {
  return extents[0] * extents[1] * extents[2];
}

struct Geometry {
  Extents in, out, kernel, padding, stride, dilation;
  int64_t batch, channels, filters, groups;
  bool is_flipped;  ///< a convolution of mathematics, not a cross-correlation

  int64_t rows() const { return channels / groups * product(kernel); }
  int64_t positions() const { return product(out); }
};

Geometry geometry_of(const Descriptor& how, const Sizes& x, const Sizes& w, const Sizes& y) {
  const auto sizes = [&](cudnnBackendAttributeName_t attribute, int64_t neutral) {
    return spatial(how.all<int64_t>(attribute), 0, neutral);
  };
  return {
      .in = spatial(x, 2, 1),
      .out = spatial(y, 2, 1),
      .kernel = spatial(w, 2, 1),
      .padding = sizes(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0),
      .stride = sizes(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1),
      .dilation = sizes(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1),
      .batch = x[0],
      .channels = x[1],
      .filters = w[0],
      .groups = x[1] / w[1],
      .is_flipped = how.get<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CONVOLUTION};
}

/// Calls visit(row, position, index in x's channel block) for each element of the windows inside of x.
template <class Visit>
void for_each_tap(const Geometry& g, const Visit& visit) {
  int64_t row = 0;
  for (int64_t c = 0; c < g.channels / g.groups; ++c)
    for (int64_t tap = 0; tap < product(g.kernel); ++tap, ++row) {
      const int64_t used = g.is_flipped ? product(g.kernel) - 1 - tap : tap;
      const Extents k{used / (g.kernel[1] * g.kernel[2]), used / g.kernel[2] % g.kernel[1],
                      used % g.kernel[2]};
      int64_t position = 0;
      for (int64_t z = 0; z < g.out[0]; ++z)
        for (int64_t y = 0; y < g.out[1]; ++y)
          for (int64_t x = 0; x < g.out[2]; ++x, ++position) {
            const Extents at{z * g.stride[0] + k[0] * g.dilation[0] - g.padding[0],
                             y * g.stride[1] + k[1] * g.dilation[1] - g.padding[1],
                             x * g.stride[2] + k[2] * g.dilation[2] - g.padding[2]};
            bool is_inside = true;
            for (size_t d = 0; d < 3; ++d) is_inside = is_inside && at[d] >= 0 && at[d] < g.in[d];
            if (is_inside) visit(row, position, ((c * g.in[0] + at[0]) * g.in[1] + at[1]) * g.in[2] + at[2]);
          }
    }
}

/// The windows of one image and group: (rows, positions).
std::vector<double> columns(const Geometry& g, const double* x) {
  std::vector<double> made(static_cast<size_t>(g.rows() * g.positions()));
  for_each_tap(g, [&](int64_t row, int64_t position, int64_t at) {
    made[static_cast<size_t>(row * g.positions() + position)] = x[at];
  });
  return made;
}

std::vector<double> transposed(const double* matrix, int64_t rows, int64_t columns) {
  std::vector<double> made(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) made[static_cast<size_t>(j * rows + i)] = matrix[i * columns + j];
  return made;
}

/// Calls visit(x, w, y) with the index of the first element of each image's group in the three tensors.
template <class Visit>
void for_each_group(const Geometry& g, const Visit& visit) {
  const int64_t x_step = g.channels / g.groups * product(g.in), y_step = g.filters / g.groups * g.positions(),
                w_step = g.filters / g.groups * g.rows();
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t group = 0; group < g.groups; ++group)
      visit((n * g.groups + group) * x_step, group * w_step, (n * g.groups + group) * y_step);
}

void forward(const Geometry& g, const Array& x, const Array& w, Array& y) {
  for_each_group(g, [&](int64_t x_at, int64_t w_at, int64_t y_at) {
    const std::vector<double> windows = columns(g, x.values.data() + x_at);
    add_product(w.values.data() + w_at, windows.data(), y.values.data() + y_at, g.filters / g.groups,
                g.positions(), g.rows());
  });
}

void data_gradient(const Geometry& g, const Array& dy, const Array& w, Array& dx) {
  for_each_group(g, [&](int64_t x_at, int64_t w_at, int64_t y_at) {
    std::vector<double> windows(static_cast<size_t>(g.rows() * g.positions()));
    const std::vector<double> turned = transposed(w.values.data() + w_at, g.filters / g.groups, g.rows());
    add_product(turned.data(), dy.values.data() + y_at, windows.data(), g.rows(), g.positions(),
                g.filters / g.groups);
    for_each_tap(g, [&](int64_t row, int64_t position, int64_t at) {
      dx.values[static_cast<size_t>(x_at + at)] +=
          windows[static_cast<size_t>(row * g.positions() + position)];
    });
  });
}

void filter_gradient(const Geometry& g, const Array& dy, const Array& x, Array& dw) {
  for_each_group(g, [&](int64_t x_at, int64_t w_at, int64_t y_at) {
    const std::vector<double> windows = columns(g, x.values.data() + x_at);
    const std::vector<double> turned = transposed(windows.data(), g.rows(), g.positions());
    add_product(dy.values.data() + y_at, turned.data(), dw.values.data() + w_at, g.filters / g.groups,
                g.rows(), g.positions());
  });
}

struct Roles {
  cudnnBackendAttributeName_t alpha, beta;
};

Roles scale_roles(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

}  // namespace

void run_convolution(const Node& node, const Graph& graph, NodeValues& values) {
  const int first = node.inputs[0].tensor, second = node.inputs[1].tensor,
            out_index = node.outputs.front().tensor;
  const Array &a = values.get(first), &b = values.get(second);
  Array out = empty_array(graph, out_index);
  switch (node.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      forward(geometry_of(*node.how, a.dims, b.dims, out.dims), a, b, out);
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      data_gradient(geometry_of(*node.how, out.dims, b.dims, a.dims), a, b, out);
      break;
    default:
      filter_gradient(geometry_of(*node.how, b.dims, out.dims, a.dims), a, b, out);
  }
  const Roles roles = scale_roles(node.type);
  const double alpha = node.operation->real(roles.alpha, 1), beta = node.operation->real(roles.beta, 0);
  const Array& before = values.get(out_index);  // loaded where beta is not 0
  for (size_t i = 0; i < out.values.size(); ++i)
    out.values[i] = alpha * out.values[i] + (beta != 0 ? beta * before.values[i] : 0);
  round_all(out, node.how->get<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE));
  values.put(out_index, std::move(out));
}

}  // namespace tessera::cuda_sim::cudnn

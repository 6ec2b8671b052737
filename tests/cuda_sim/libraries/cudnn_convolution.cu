// cuDNN's stand-in: convolutions, their gradients and what stands behind them, against plain loops in double.
#include <cmath>

#include "tests/cuda_sim/libraries/cudnn_graphs/layers.h"
#include "tests/cuda_sim/libraries/cudnn_graphs/memory.h"

using namespace cudnn_graphs;

namespace {

/// Three spatial dimensions, the last ones of fewer.
struct Plain {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t padding[3] = {0, 0, 0}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  int64_t batch, channels, filters, group_in;
  bool is_flipped;

  explicit Plain(const Convolution& c)
      : batch(c.x[0]),
        channels(c.x[1]),
        filters(c.w[0]),
        group_in(c.w[1]),
        is_flipped(c.sizes.mode == CUDNN_CONVOLUTION) {
    const Sizes y = c.y_shape();
    const size_t n = c.x.size() - 2, first = 3 - n;
    for (size_t i = 0; i < n; ++i) {
      in[first + i] = c.x[i + 2];
      out[first + i] = y[i + 2];
      kernel[first + i] = c.w[i + 2];
      padding[first + i] = c.sizes.padding[i];
      stride[first + i] = c.sizes.stride[i];
      dilation[first + i] = c.sizes.dilation[i];
    }
  }

  /// Calls visit(x, w, y) with the indices of the factors of each product.
  template <class Visit>
  void for_each(const Visit& visit) const {
    const int64_t outputs = batch * filters * out[0] * out[1] * out[2],
                  taps = group_in * kernel[0] * kernel[1] * kernel[2];
    for (int64_t y = 0; y < outputs; ++y)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t o[3] = {y / out[2] / out[1] % out[0], y / out[2] % out[1], y % out[2]};
        const int64_t k[3] = {tap / kernel[2] / kernel[1] % kernel[0], tap / kernel[2] % kernel[1],
                              tap % kernel[2]};
        const int64_t filter = y / (out[0] * out[1] * out[2]) % filters,
                      n = y / (out[0] * out[1] * out[2]) / filters;
        const int64_t group = filter / (filters / (channels / group_in));
        int64_t x = n * channels + group * group_in + tap / (kernel[0] * kernel[1] * kernel[2]);
        bool is_inside = true;
        for (int d = 0; d < 3; ++d) {
          const int64_t step = is_flipped ? kernel[d] - 1 - k[d] : k[d];
          const int64_t at = o[d] * stride[d] + step * dilation[d] - padding[d];
          is_inside = is_inside && at >= 0 && at < in[d];
          x = x * in[d] + at;
        }
        if (is_inside)
          visit(static_cast<size_t>(x), static_cast<size_t>(filter * taps + tap), static_cast<size_t>(y));
      }
  }
};

/// x, w and y of a convolution in memory.
struct Operands {
  Memory x, w, y;
  explicit Operands(const Convolution& c)
      : x(c.x, c.strides(c.x), c.type),
        w(c.w, c.strides(c.w), c.type),
        y(c.y_shape(), c.strides(c.y_shape()), c.type) {
    x.fill(1);
    w.fill(2, 0.25);
    y.fill(3);
  }
  Bindings bindings(const ConvolutionIds& ids) const {
    Bindings made;
    made.add(ids.x, x);
    made.add(ids.w, w);
    made.add(ids.y, y);
    return made;
  }
};

void check_all(const Convolution& c) {
  const Session session;
  Operands operands(c);
  const Plain plain(c);
  const double tolerance = tolerance_of(c.type);
  std::vector<double> expected(operands.y.values.size());
  plain.for_each(
      [&](size_t x, size_t w, size_t y) { expected[y] += operands.x.values[x] * operands.w.values[w]; });
  Graph forward, data, filter;
  const std::vector<double> dy = operands.y.values;
  run_graph(session, forward, operands.bindings(convolution_forward(forward, c)));
  CHECK(worst_error(operands.y.read(), expected) < tolerance);
  operands.y.values = dy;
  operands.y.write();
  const std::vector<double> x = operands.x.values, w = operands.w.values;
  expected.assign(x.size(), 0);
  plain.for_each([&](size_t i, size_t j, size_t k) { expected[i] += w[j] * dy[k]; });
  run_graph(session, data, operands.bindings(convolution_data_gradient(data, c)));
  CHECK(worst_error(operands.x.read(), expected) < tolerance);
  operands.x.values = x;
  operands.x.write();
  expected.assign(w.size(), 0);
  plain.for_each([&](size_t i, size_t j, size_t k) { expected[j] += x[i] * dy[k]; });
  run_graph(session, filter, operands.bindings(convolution_filter_gradient(filter, c)));
  CHECK(worst_error(operands.w.read(), expected) < tolerance);
  CHECK(device_check::none());
}

constexpr auto f32 = CUDNN_DATA_FLOAT;

}  // namespace

TEST_CASE("convolutions and gradients of every type and layout agree with plain loops") {
  for (const auto type : {CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF, f32})
    for (const bool inside : {true, false})
      check_all({.x = {2, 8, 6, 5}, .w = {4, 8, 3, 3}, .type = type, .channels_inside = inside});
  Convolution wide{.x = {2, 8, 6, 5}, .w = {4, 8, 3, 3}, .type = CUDNN_DATA_DOUBLE};
  wide.sizes.compute = CUDNN_DATA_DOUBLE;
  check_all(wide);
}

TEST_CASE("convolutions have strides, dilations, paddings and groups") {
  for (const bool inside : {true, false}) {
    check_all({.x = {2, 4, 9, 8},
               .w = {6, 4, 3, 2},
               .sizes = {{1, 0}, {2, 1}, {1, 2}},
               .type = f32,
               .channels_inside = inside});
    check_all({.x = {1, 8, 7, 7},
               .w = {8, 2, 3, 3},
               .sizes = {{1, 1}, {1, 1}, {1, 1}},
               .type = f32,
               .channels_inside = inside});
    check_all({.x = {1, 6, 5, 5},
               .w = {6, 1, 3, 3},
               .sizes = {{2, 2}, {2, 2}, {1, 1}},
               .type = f32,
               .channels_inside = inside});
  }
  check_all({.x = {1, 4, 6, 6}, .w = {3, 4, 3, 3}, .sizes = {{0, 0}, {1, 1}, {1, 1}, {1, 2}}, .type = f32});
  check_all({.x = {1, 4, 6, 6},
             .w = {3, 4, 3, 2},
             .sizes = {.padding = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .mode = CUDNN_CONVOLUTION},
             .type = f32});
}

TEST_CASE("convolutions have one and three spatial dimensions") {
  for (const bool inside : {true, false}) {
    check_all(
        {.x = {3, 4, 11}, .w = {5, 4, 3}, .sizes = {{1}, {2}, {2}}, .type = f32, .channels_inside = inside});
    check_all({.x = {1, 4, 4, 5, 3},
               .w = {3, 4, 2, 3, 2},
               .sizes = {{1, 1, 0}, {1, 2, 1}, {1, 1, 1}},
               .type = f32,
               .channels_inside = inside});
  }
}

TEST_CASE("bias, a sum and relu stand behind a convolution") {
  for (const auto type : {CUDNN_DATA_BFLOAT16, f32}) {
    const Convolution c{
        .x = {2, 8, 6, 5}, .w = {8, 8, 3, 3}, .type = type, .bias = true, .relu = true, .add = true};
    const Session session;
    Operands operands(c);
    const Sizes bias_shape{1, 8, 1, 1};
    Memory bias(bias_shape, type), added(c.y_shape(), c.strides(c.y_shape()), type);
    bias.fill(4);
    added.fill(5);
    Graph graph;
    const ConvolutionIds ids = convolution_forward(graph, c);
    Bindings bindings = operands.bindings(ids);
    bindings.add(ids.bias, bias);
    bindings.add(ids.added, added);
    std::vector<double> expected(operands.y.values.size());
    Plain(c).for_each(
        [&](size_t x, size_t w, size_t y) { expected[y] += operands.x.values[x] * operands.w.values[w]; });
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = std::fmax(0.0, expected[i] + bias.values[i / 30 % 8] + added.values[i]);
    run_graph(session, graph, bindings);
    CHECK(worst_error(operands.y.read(), expected) < tolerance_of(type));
    CHECK(device_check::none());
  }
}

TEST_CASE("alpha scales a convolution, beta adds what was there") {
  const Convolution c{.x = {1, 4, 5, 5}, .w = {4, 4, 3, 3}, .type = f32};
  const Session session;
  Operands operands(c);
  const std::vector<double> before = operands.y.values;
  Graph graph;
  const ConvolutionIds ids{graph.tensor(c.x, c.strides(c.x)), graph.tensor(c.w, c.strides(c.w)),
                           graph.tensor(c.y_shape(), c.strides(c.y_shape()))};
  Descriptor& how = graph.convolution_sizes(c.sizes);
  Descriptor& made = graph.operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "convolution");
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how);
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 2.0f);
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.5f);
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, graph[ids.x]);
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, graph[ids.w]);
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, graph[ids.y]);
  made.finalize();
  std::vector<double> expected(before.size());
  Plain(c).for_each(
      [&](size_t x, size_t w, size_t y) { expected[y] += 2 * operands.x.values[x] * operands.w.values[w]; });
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += 0.5 * before[i];
  run_graph(session, graph, operands.bindings(ids));
  CHECK(worst_error(operands.y.read(), expected) < 1e-6);
  CHECK(device_check::none());
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}

// cuDNN's stand-in: batch, layer and RMS norm against plain loops in double.
#include <cmath>

#include "tests/cuda_sim/libraries/cudnn_graphs/layers.h"
#include "tests/cuda_sim/libraries/cudnn_graphs/memory.h"

using namespace cudnn_graphs;

namespace {

constexpr float epsilon = 1e-3f, factor = 0.25f;

/// For each element of x: its group (of the statistics) and its parameter, as numbers.
struct Plain {
  const Norm& n;
  size_t rest;  ///< elements of a channel of an image
  explicit Plain(const Norm& norm) : n(norm), rest(1) {
    for (size_t i = 2; i < n.x.size(); ++i) rest *= static_cast<size_t>(n.x[i]);
  }
  size_t channels() const { return static_cast<size_t>(n.x[1]); }
  size_t group(size_t i) const {
    return n.mode == CUDNN_BATCH_NORM ? i / rest % channels() : i / (rest * channels());
  }
  size_t parameter(size_t i) const {
    return n.mode == CUDNN_BATCH_NORM ? i / rest % channels() : i % (rest * channels());
  }
  size_t groups() const { return n.mode == CUDNN_BATCH_NORM ? channels() : static_cast<size_t>(n.x[0]); }
  double size() const { return static_cast<double>(n.x[0]) * rest * channels() / groups(); }
};

struct Statistics {
  std::vector<double> mean, variance, deviation;
  Statistics(const Plain& plain, const std::vector<double>& x)
      : mean(plain.groups()), variance(plain.groups()), deviation(plain.groups()) {
    for (size_t i = 0; i < x.size(); ++i) mean[plain.group(i)] += x[i] / plain.size();
    for (size_t i = 0; i < x.size(); ++i) {
      const double centred = x[i] - mean[plain.group(i)];
      variance[plain.group(i)] += centred * centred / plain.size();
    }
    for (size_t g = 0; g < mean.size(); ++g) deviation[g] = 1 / std::sqrt(variance[g] + epsilon);
  }
};

struct Operands {
  Memory x, y, scale, bias, mean, deviation;
  explicit Operands(const Norm& n)
      : x(n.x, n.strides(n.x), n.type),
        y(n.x, n.strides(n.x), n.type),
        scale(n.parameter_shape(), n.strides(n.parameter_shape()), n.parameter_type),
        bias(n.parameter_shape(), n.strides(n.parameter_shape()), n.parameter_type),
        mean(n.statistics_shape()),
        deviation(n.statistics_shape()) {
    x.fill(1);
    scale.fill(2);
    bias.fill(3);
  }
};

void check_training(const Norm& n) {
  const Session session;
  Operands operands(n);
  Memory running_mean(n.statistics_shape()), running_variance(n.statistics_shape()),
      next_mean(n.statistics_shape()), next_variance(n.statistics_shape());
  running_mean.fill(4);
  running_variance.fill(5);
  float epsilon_value = epsilon, factor_value = factor;
  Graph graph;
  const NormIds ids = norm_training(graph, n);
  Bindings bindings;
  for (const auto& [id, memory] : {std::pair{ids.x, &operands.x},
                                   {ids.y, &operands.y},
                                   {ids.scale, &operands.scale},
                                   {ids.bias, &operands.bias},
                                   {ids.mean, &operands.mean},
                                   {ids.deviation, &operands.deviation}})
    bindings.add(id, *memory);
  bindings.add(ids.epsilon, &epsilon_value);
  const bool has_running = ids.factor != 0;
  if (has_running) {
    bindings.add(ids.factor, &factor_value);
    bindings.add(ids.running_mean, running_mean);
    bindings.add(ids.running_variance, running_variance);
    bindings.add(ids.next_mean, next_mean);
    bindings.add(ids.next_variance, next_variance);
  }
  run_graph(session, graph, bindings);
  const Plain plain(n);
  const Statistics expected(plain, operands.x.values);
  std::vector<double> y(operands.x.values.size());
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = (operands.x.values[i] - expected.mean[plain.group(i)]) * expected.deviation[plain.group(i)] *
               operands.scale.values[plain.parameter(i)] +
           operands.bias.values[plain.parameter(i)];
  CHECK(worst_error(operands.y.read(), y) < tolerance_of(n.type));
  CHECK(worst_error(operands.mean.read(), expected.mean) < 1e-6);
  CHECK(worst_error(operands.deviation.read(), expected.deviation) < 1e-6);
  if (has_running) {
    std::vector<double> mean(expected.mean.size()), variance(mean.size());
    for (size_t g = 0; g < mean.size(); ++g) {
      mean[g] = (1 - factor) * running_mean.values[g] + factor * expected.mean[g];
      variance[g] = (1 - factor) * running_variance.values[g] +
                    factor * expected.variance[g] * plain.size() / (plain.size() - 1);
    }
    CHECK(worst_error(next_mean.read(), mean) < 1e-6);
    CHECK(worst_error(next_variance.read(), variance) < 1e-6);
  }
  CHECK(device_check::none());
}

void check_gradient(const Norm& n) {
  const Session session;
  Operands operands(n);
  const Plain plain(n);
  const Statistics s(plain, operands.x.values);
  operands.mean.values = s.mean;
  operands.deviation.values = s.deviation;
  operands.mean.write();
  operands.deviation.write();
  Memory dy(n.x, n.strides(n.x), n.type), d_scale(n.parameter_shape(), n.parameter_type),
      d_bias(n.parameter_shape(), n.parameter_type);
  dy.fill(6);
  Graph graph;
  const NormIds ids = norm_gradient(graph, n);
  Bindings bindings;
  for (const auto& [id, memory] : {std::pair{ids.x, &operands.x},
                                   {ids.dy, &dy},
                                   {ids.scale, &operands.scale},
                                   {ids.mean, &operands.mean},
                                   {ids.deviation, &operands.deviation},
                                   {ids.dx, &operands.y},
                                   {ids.d_scale, &d_scale},
                                   {ids.d_bias, &d_bias}})
    bindings.add(id, *memory);
  run_graph(session, graph, bindings);
  const std::vector<double>& x = operands.x.values;
  std::vector<double> mean_g(plain.groups()), mean_product(plain.groups()), dx(x.size()),
      scale_gradient(d_scale.values.size()), bias_gradient(d_bias.values.size());
  const auto normal = [&](size_t i) { return (x[i] - s.mean[plain.group(i)]) * s.deviation[plain.group(i)]; };
  const auto g = [&](size_t i) { return dy.values[i] * operands.scale.values[plain.parameter(i)]; };
  for (size_t i = 0; i < x.size(); ++i) {
    mean_g[plain.group(i)] += g(i) / plain.size();
    mean_product[plain.group(i)] += g(i) * normal(i) / plain.size();
    scale_gradient[plain.parameter(i)] += dy.values[i] * normal(i);
    bias_gradient[plain.parameter(i)] += dy.values[i];
  }
  for (size_t i = 0; i < x.size(); ++i)
    dx[i] = s.deviation[plain.group(i)] *
            (g(i) - mean_g[plain.group(i)] - normal(i) * mean_product[plain.group(i)]);
  CHECK(worst_error(operands.y.read(), dx) < tolerance_of(n.type));
  CHECK(worst_error(d_scale.read(), scale_gradient) < 1e-5);
  CHECK(worst_error(d_bias.read(), bias_gradient) < 1e-5);
  CHECK(device_check::none());
}

}  // namespace

TEST_CASE("batch norm in training gives statistics and updates the running ones") {
  for (const auto type : {CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF, CUDNN_DATA_FLOAT})
    for (const bool inside : {true, false}) {
      const Norm n{.x = {3, 8, 4, 5}, .type = type, .channels_inside = inside};
      check_training(n);
      check_gradient(n);
    }
  check_training({.x = {3, 8, 4, 5}, .running = false});
}

TEST_CASE("layer norm has its statistics for each row") {
  for (const auto type : {CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT}) {
    const Norm n{.mode = CUDNN_LAYER_NORM, .x = {6, 20, 1, 1}, .type = type};
    check_training(n);
    check_gradient(n);
  }
}

TEST_CASE("batch norm in inference is four pointwise operations") {
  const Norm n{.x = {3, 8, 4, 5}, .type = CUDNN_DATA_BFLOAT16};
  const Session session;
  Operands operands(n);
  operands.mean.fill(7);
  operands.deviation.fill(8);
  Graph graph;
  const NormIds ids = norm_inference(graph, n);
  Bindings bindings;
  for (const auto& [id, memory] : {std::pair{ids.x, &operands.x},
                                   {ids.y, &operands.y},
                                   {ids.scale, &operands.scale},
                                   {ids.bias, &operands.bias},
                                   {ids.mean, &operands.mean},
                                   {ids.deviation, &operands.deviation}})
    bindings.add(id, *memory);
  run_graph(session, graph, bindings);
  std::vector<double> y(operands.x.values.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t c = i / 20 % 8;
    y[i] = (operands.x.values[i] - operands.mean.values[c]) * operands.deviation.values[c] *
               operands.scale.values[c] +
           operands.bias.values[c];
  }
  CHECK(worst_error(operands.y.read(), y) < tolerance_of(n.type));
  CHECK(device_check::none());
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}

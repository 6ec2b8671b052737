// Kernels as a library has them, against references in double: layer norm, softmax, AdamW, attention. No
// order of operations, blocks or warps may change a bit: run_in_all_orders.sh compares what is printed.
#include <memory>

#include "tests/cuda_sim/kernels/arrays.h"
#include "tools/bench/cuda_sim/adamw.cuh"
#include "tools/bench/cuda_sim/attention.cuh"
#include "tools/bench/cuda_sim/layer_norm.cuh"
#include "tools/bench/cuda_sim/softmax.cuh"

using namespace device_check;
using namespace tessera::sample_kernels;

namespace {

constexpr float epsilon = 1e-5f;

/// Layer norm of one row in double, with its gradients.
struct NormRow {
  double mean = 0, inverse = 0, mean_gradient = 0, mean_product = 0;
  template <class T>
  NormRow(const T* x, const T* grad, const float* weight, int columns) {
    for (int c = 0; c < columns; ++c) mean += static_cast<double>(static_cast<float>(x[c])) / columns;
    double variance = 0;
    for (int c = 0; c < columns; ++c) variance += std::pow(static_cast<float>(x[c]) - mean, 2) / columns;
    inverse = 1 / std::sqrt(variance + epsilon);
    for (int c = 0; c < columns; ++c) {
      const double gradient = static_cast<double>(static_cast<float>(grad[c])) * weight[c];
      mean_gradient += gradient / columns;
      mean_product += gradient * normal_of(static_cast<float>(x[c])) / columns;
    }
  }
  double normal_of(double x) const { return (x - mean) * inverse; }
  double input_gradient(double x, double gradient) const {
    return inverse * (gradient - mean_gradient - normal_of(x) * mean_product);
  }
};

/// f32: sums of 768 values in f32. bf16: half a unit in the last place of values below 16, 2^-5, and sums.
template <class T>
void check_layer_norm(int rows, int columns, const char* name, double tolerance) {
  const size_t count = static_cast<size_t>(rows) * columns;
  const auto x = normal<T>(count, 1, 2), grad = normal<T>(count, 2);
  const auto weight = normal<float>(columns, 3), bias = normal<float>(columns, 4);
  const DeviceArray<T> dx(x), dgrad(grad), y(count), grad_x(count);
  const DeviceArray<float> dweight(weight), dbias(bias), mean(rows), inverse(rows), grad_weight(columns),
      grad_bias(columns);
  layer_norm<T><<<rows, norm_threads>>>(dx.data, dweight.data, dbias.data, y.data, mean.data, inverse.data,
                                        columns, epsilon);
  layer_norm_input_gradient<T><<<rows, norm_threads>>>(dgrad.data, dx.data, dweight.data, mean.data,
                                                       inverse.data, grad_x.data, columns);
  layer_norm_weight_gradient<T>
      <<<(columns + gradient_columns - 1) / gradient_columns, dim3(gradient_columns, gradient_rows)>>>(
          dgrad.data, dx.data, mean.data, inverse.data, grad_weight.data, grad_bias.data, rows, columns);
  CHECK_OK(cudaDeviceSynchronize());
  const auto out = y.get(), out_grad = grad_x.get();
  const auto out_weight = grad_weight.get(), out_bias = grad_bias.get();
  std::vector<double> weights(columns), biases(columns);
  Difference values, inputs, parameters;
  for (int r = 0; r < rows; ++r) {
    const size_t first = static_cast<size_t>(r) * columns;
    const NormRow row(&x[first], &grad[first], weight.data(), columns);
    for (int c = 0; c < columns; ++c) {
      const double value = static_cast<float>(x[first + c]), gradient = static_cast<float>(grad[first + c]);
      values.add(static_cast<float>(out[first + c]), row.normal_of(value) * weight[c] + bias[c]);
      inputs.add(static_cast<float>(out_grad[first + c]), row.input_gradient(value, gradient * weight[c]));
      weights[c] += gradient * row.normal_of(value);
      biases[c] += gradient;
    }
  }
  for (int c = 0; c < columns; ++c) {
    parameters.add(out_weight[c], weights[c]);
    parameters.add(out_bias[c], biases[c]);
  }
  CHECK(values.is_within(tolerance));
  CHECK(inputs.is_within(tolerance));
  CHECK(parameters.is_within(1e-4));  // sums of `rows` values in f32
  CHECK(none());
  print_bits(name, out);
  print_bits(name, out_grad);
  print_bits(name, out_weight);
}

/// The list of tensors that a launch of AdamW takes.
AdamwTensors list_of(const std::vector<AdamwTensor>& tensors) {
  AdamwTensors list{};
  int block = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    list.tensor[i] = tensors[i];
    list.first_block[i] = block;
    block += static_cast<int>((tensors[i].numel + adamw_chunk - 1) / adamw_chunk);
  }
  for (size_t i = tensors.size(); i <= adamw_tensors; ++i) list.first_block[i] = block;
  return list;
}

}  // namespace

TEST_CASE("layer norm, forward and backward") {
  check_layer_norm<float>(40, 768, "layer norm f32", 2e-5);
  check_layer_norm<float>(24, 777, "layer norm f32 of 777", 2e-5);
  check_layer_norm<__nv_bfloat16>(40, 768, "layer norm bf16", 0.04);
  check_layer_norm<__nv_bfloat16>(24, 777, "layer norm bf16 of 777", 0.04);
}

TEST_CASE("softmax of rows that end within a warp") {
  constexpr int rows = 61, columns = 333;
  const auto x = normal<float>(size_t{rows} * columns, 5, 3);
  const DeviceArray<float> in(x), out(x.size());
  softmax<float>
      <<<(rows + softmax_rows - 1) / softmax_rows, 32 * softmax_rows>>>(in.data, out.data, rows, columns);
  const auto y = out.get();
  Difference difference;
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int c = 0; c < columns; ++c) sum += std::exp(static_cast<double>(x[r * columns + c]));
    for (int c = 0; c < columns; ++c)
      difference.add(y[r * columns + c], std::exp(static_cast<double>(x[r * columns + c])) / sum);
  }
  CHECK(difference.is_within(1e-6));
  CHECK(none());
  print_bits("softmax", y);
}

TEST_CASE("AdamW over tensors of many sizes, three steps") {
  const std::vector<int64_t> sizes = {768, 768 * 8, 31, 1, 5000, 64 * 64, 1024, 1025};
  std::vector<std::vector<float>> parameters, gradients;
  std::vector<AdamwTensor> tensors;
  std::vector<std::unique_ptr<DeviceArray<float>>> memory;
  const auto keep = [&](const std::vector<float>& values) {
    return memory.emplace_back(std::make_unique<DeviceArray<float>>(values))->data;
  };
  for (const int64_t numel : sizes) {
    const auto count = static_cast<size_t>(numel);
    parameters.push_back(normal<float>(count, static_cast<uint32_t>(numel)));
    gradients.push_back(normal<float>(count, static_cast<uint32_t>(numel) + 1));
    tensors.push_back({keep(parameters.back()), keep(gradients.back()), keep(std::vector<float>(count)),
                       keep(std::vector<float>(count)), numel});
  }
  const DeviceArray<float> scale(std::vector<float>{0.5f});
  const AdamwTensors list = list_of(tensors);
  constexpr int steps = 3;
  for (int s = 1; s <= steps; ++s)
    adamw<<<list.first_block[adamw_tensors], adamw_threads>>>(
        list, {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 1 - std::pow(0.9f, float(s)), 1 - std::pow(0.95f, float(s))},
        scale.data);
  Difference difference;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto out = memory[4 * i]->get();
    for (size_t j = 0; j < out.size(); ++j) {
      double p = parameters[i][j], first = 0, second = 0;
      const double gradient = gradients[i][j] * 0.5;
      for (int s = 1; s <= steps; ++s) {
        first = 0.9 * first + 0.1 * gradient;
        second = 0.95 * second + 0.05 * gradient * gradient;
        const double direction =
            first / (1 - std::pow(0.9, s)) / (std::sqrt(second / (1 - std::pow(0.95, s))) + 1e-8);
        p -= 1e-2 * (direction + 0.1 * p);
      }
      difference.add(out[j], p);
    }
    if (sizes[i] == 5000) print_bits("AdamW", out);
  }
  CHECK(difference.is_within(2e-6));
  CHECK(none());
}

TEST_CASE("causal attention of bf16") {
  constexpr int heads = 2, rows = 200;
  constexpr size_t count = size_t{heads} * rows * head_size;
  const auto q = normal<__nv_bfloat16>(count, 6), k = normal<__nv_bfloat16>(count, 7),
             v = normal<__nv_bfloat16>(count, 8);
  const DeviceArray<__nv_bfloat16> dq(q), dk(k), dv(v), out(count);
  const DeviceArray<float> log_sum(heads * rows);
  attention<><<<dim3((rows + attention_rows - 1) / attention_rows, heads), attention_threads,
                attention_shared_bytes>>>(dq.data, dk.data, dv.data, out.data, log_sum.data, rows,
                                          0.125f * 1.4426950408889634f);
  const auto o = out.get();
  const auto logs = log_sum.get();
  Difference values, sums;
  for (int head = 0; head < heads; ++head)
    for (int row = 0; row < rows; ++row) {
      const auto at = [&](const std::vector<__nv_bfloat16>& x, int r, int c) {
        return static_cast<double>(
            static_cast<float>(x[(static_cast<size_t>(head) * rows + r) * head_size + c]));
      };
      std::vector<double> weight(row + 1);
      double sum = 0;
      for (int key = 0; key <= row; ++key) {
        for (int c = 0; c < head_size; ++c) weight[key] += at(q, row, c) * at(k, key, c) / 8;
        sum += weight[key] = std::exp(weight[key]);
      }
      sums.add(logs[head * rows + row], std::log(sum));
      for (int c = 0; c < head_size; ++c) {
        double expected = 0;
        for (int key = 0; key <= row; ++key) expected += weight[key] / sum * at(v, key, c);
        values.add(at(o, row, c), expected);
      }
    }
  CHECK(values.is_within(0.02));  // weights and outputs in bf16: 2^-9 of values below 4, and their sum
  CHECK(sums.is_within(1e-5));
  CHECK(none());
  print_bits("attention", o);
}

int main(int argc, char** argv) {
  return run(argc, argv);
}

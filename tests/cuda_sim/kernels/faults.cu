// The kernels with one fault each: every one is reported with the line of the source where it shows. Two
// more, of which the values come out right in every order, are seen by the check alone.
#include <cstring>

#include "tests/cuda_sim/kernels/arrays.h"
#include "tools/bench/cuda_sim/attention.cuh"
#include "tools/bench/cuda_sim/layer_norm.cuh"
#include "tools/bench/cuda_sim/softmax.cuh"

using namespace device_check;
using namespace tessera::sample_kernels;

namespace {

/// Findings of `check` alone, at that line of that file.
bool is_reported(const char* check, const char* file, int line) {
  const std::string place = std::string(file) + ":" + std::to_string(line) + "]";
  const std::string text = findings();
  const bool is_found = text.find(place) != std::string::npos;
  if (!is_found) std::printf("expected %s, found:\n%s", place.c_str(), text.c_str());
  return only(check) && is_found;
}

constexpr int rows = 12, columns = 768;

template <Fault fault>
std::vector<float> norm() {
  const DeviceArray<float> x(normal<float>(size_t{rows} * columns, 1)), weight(normal<float>(columns, 2)),
      bias(normal<float>(columns, 3)), y(size_t{rows} * columns), mean(rows), inverse(rows);
  layer_norm<float, fault><<<rows, norm_threads>>>(x.data, weight.data, bias.data, y.data, mean.data,
                                                   inverse.data, columns, 1e-5f);
  return y.get();
}

template <Fault fault>
std::vector<float> weight_gradient() {
  const DeviceArray<float> x(normal<float>(size_t{rows} * columns, 1)),
      grad(normal<float>(size_t{rows} * columns, 2)), mean(normal<float>(rows, 3)),
      inverse(normal<float>(rows, 4)), weight(columns), bias(columns);
  layer_norm_weight_gradient<float, fault>
      <<<columns / gradient_columns, dim3(gradient_columns, gradient_rows)>>>(
          grad.data, x.data, mean.data, inverse.data, weight.data, bias.data, rows, columns);
  return weight.get();
}

template <Fault fault>
cudaError_t softmax_of_rows() {
  constexpr int width = 333;
  const DeviceArray<float> x(normal<float>(size_t{rows} * width, 1)), y(size_t{rows} * width);
  softmax<float, fault>
      <<<(rows + softmax_rows - 1) / softmax_rows, 32 * softmax_rows>>>(x.data, y.data, rows, width);
  return cudaDeviceSynchronize();
}

template <Fault fault>
std::vector<__nv_bfloat16> attention_of_heads() {
  constexpr int heads = 2, length = 200;
  constexpr size_t count = size_t{heads} * length * head_size;
  const DeviceArray<__nv_bfloat16> q(normal<__nv_bfloat16>(count, 1)), k(normal<__nv_bfloat16>(count, 2)),
      v(normal<__nv_bfloat16>(count, 3)), o(count);
  const DeviceArray<float> log_sum(heads * length);
  attention<fault><<<dim3((length + attention_rows - 1) / attention_rows, heads), attention_threads,
                     attention_shared_bytes>>>(q.data, k.data, v.data, o.data, log_sum.data, length, 0.18f);
  return o.get();
}

constexpr int exchange_read_line = __LINE__ + 6;
template <bool is_faulty>
__global__ void reverse_in_warp(const int* x, int* y) {
  __shared__ int values[64];
  values[threadIdx.x] = x[threadIdx.x];
  if constexpr (!is_faulty) __syncwarp();
  const int other = values[threadIdx.x ^ 31];
  y[threadIdx.x] = other;
}

constexpr int place_written_line = __LINE__ + 2;
__global__ void write_by_all_blocks(int* out) {
  if (threadIdx.x == 0) *out = 7;
}

std::vector<int> counted(int count) {
  std::vector<int> values(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<size_t>(i)] = i;
  return values;
}

template <class T>
bool is_same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace

TEST_CASE("a block's sum without its first barrier") {
  norm<Fault::sum_without_first_barrier>();
  CHECK(is_reported("shared-race", "sums.cuh", partial_written_line));
}

TEST_CASE("a block's sum without its second barrier") {
  norm<Fault::sum_without_second_barrier>();
  CHECK(findings().find("sums.cuh:" + std::to_string(partial_read_line) + "]") != std::string::npos);
  CHECK(tessera_cuda_sim_findings_of("shared-race") != 0);
  tessera_cuda_sim_clear_findings();  // what is read may also be what nothing has written
}

TEST_CASE("a weight's gradient without its barrier") {
  weight_gradient<Fault::weight_gradient_no_barrier>();
  CHECK(findings().find("layer_norm.cuh:" + std::to_string(gradient_read_line) + "]") != std::string::npos);
  CHECK(tessera_cuda_sim_findings_of("shared-race") != 0);
  tessera_cuda_sim_clear_findings();
}

TEST_CASE("softmax that looks at one element too far") {
  CHECK_EQ(softmax_of_rows<Fault::softmax_one_element_too_far>(), cudaErrorIllegalAddress);
  CHECK(is_reported("bounds", "softmax.cuh", largest_read_line));
  CHECK_OK(cudaDeviceReset());
}

TEST_CASE("attention that does not wait for its keys") {
  attention_of_heads<Fault::attention_without_wait>();
  CHECK(findings().find("attention.cuh:") != std::string::npos);
  CHECK(only("copy-in-flight"));
}

TEST_CASE("attention without the barrier at a step's end") {
  attention_of_heads<Fault::attention_without_barrier>();
  CHECK(findings().find("attention.cuh:") != std::string::npos);
  CHECK(tessera_cuda_sim_findings_of("shared-race") != 0);
  tessera_cuda_sim_clear_findings();
}

TEST_CASE("lanes of a warp exchange values without a barrier: right values, which only the check sees") {
  const std::vector<int> in = counted(64);
  const DeviceArray<int> x(in), y(in.size());
  reverse_in_warp<false><<<1, 64>>>(x.data, y.data);
  const auto expected = y.get();
  CHECK(none());
  CHECK_EQ(expected[0], in[31]);
  reverse_in_warp<true><<<1, 64>>>(x.data, y.data);
  CHECK(is_same(y.get(), expected));
  CHECK(is_reported("shared-race", "faults.cu", exchange_read_line));
}

TEST_CASE("all blocks write one value to one place: right values, which only the check sees") {
  const DeviceArray<int> out(size_t{1});
  write_by_all_blocks<<<4, 32>>>(out.data);
  CHECK_EQ(out.get()[0], 7);
  CHECK(is_reported("global-race", "faults.cu", place_written_line));
}

int main(int argc, char** argv) {
  return run(argc, argv);
}

// cuBLASLt's stand-in: products against plain loops, epilogues, and what the real library refuses.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/cuda_sim/device_check.h"

namespace {

#define CHECK_STATUS(call, wanted) CHECK_EQ(static_cast<int>(call), static_cast<int>(wanted))

template <class T>
constexpr cudaDataType type_of = CUDA_R_32F;
template <>
constexpr cudaDataType type_of<double> = CUDA_R_64F;
template <>
constexpr cudaDataType type_of<__half> = CUDA_R_16F;
template <>
constexpr cudaDataType type_of<__nv_bfloat16> = CUDA_R_16BF;

template <class T>
struct Block {
  std::vector<T> host;
  T* device = nullptr;
  explicit Block(size_t n, unsigned seed = 0) : host(n) {
    for (size_t i = 0; i < n; ++i) {
      seed = seed * 1664525 + 1013904223;
      host[i] = static_cast<T>(static_cast<float>(static_cast<int>(seed >> 16 & 255) - 128) / 64);
    }
    REQUIRE_OK(cudaMalloc(&device, n * sizeof(T)));
    REQUIRE_OK(cudaMemcpy(device, host.data(), n * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Block() { CHECK_OK(cudaFree(device)); }
  void get() { REQUIRE_OK(cudaMemcpy(host.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost)); }
};

struct Product {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t description;
  cublasLtMatrixLayout_t a, b, c;
  Product(cublasComputeType_t compute, cudaDataType scale, cudaDataType in, cudaDataType out, int m, int n,
          int k, bool ta, bool tb) {
    CHECK_STATUS(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    CHECK_STATUS(cublasLtMatmulDescCreate(&description, compute, scale), CUBLAS_STATUS_SUCCESS);
    const cublasOperation_t transpose = CUBLAS_OP_T;
    if (ta) set(CUBLASLT_MATMUL_DESC_TRANSA, transpose);
    if (tb) set(CUBLASLT_MATMUL_DESC_TRANSB, transpose);
    CHECK_STATUS(cublasLtMatrixLayoutCreate(&a, in, ta ? k : m, ta ? m : k, ta ? k : m),
                 CUBLAS_STATUS_SUCCESS);
    CHECK_STATUS(cublasLtMatrixLayoutCreate(&b, in, tb ? n : k, tb ? k : n, tb ? n : k),
                 CUBLAS_STATUS_SUCCESS);
    CHECK_STATUS(cublasLtMatrixLayoutCreate(&c, out, m, n, m), CUBLAS_STATUS_SUCCESS);
  }
  ~Product() {
    for (cublasLtMatrixLayout_t layout : {a, b, c}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(description);
    cublasLtDestroy(handle);
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    CHECK_STATUS(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value),
                 CUBLAS_STATUS_SUCCESS);
  }
  template <class S>
  cublasStatus_t run(S alpha, const void* x, const void* y, S beta, void* z) {
    return cublasLtMatmul(handle, description, &alpha, x, a, y, b, &beta, z, c, z, c, nullptr, nullptr, 0,
                          nullptr);
  }
};

template <class In, class Out, class Scale>
void check_product(cublasComputeType_t compute, double tolerance) {
  constexpr int m = 37, n = 23, k = 41;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const float beta : {0.f, 0.5f}) {
        Block<In> x(m * k, 1), y(k * n, 2);
        Block<Out> z(m * n, 3);
        const std::vector<Out> before = z.host;
        Product product(compute, type_of<Scale>, type_of<In>, type_of<Out>, m, n, k, ta, tb);
        CHECK_STATUS(
            product.run(static_cast<Scale>(2), x.device, y.device, static_cast<Scale>(beta), z.device),
            CUBLAS_STATUS_SUCCESS);
        z.get();
        double worst = 0;
        for (int j = 0; j < n; ++j)
          for (int i = 0; i < m; ++i) {
            double sum = 0;
            for (int l = 0; l < k; ++l)
              sum += static_cast<double>(static_cast<float>(x.host[ta ? i * k + l : l * m + i])) *
                     static_cast<double>(static_cast<float>(y.host[tb ? l * n + j : j * k + l]));
            const double expected =
                2 * sum + beta * static_cast<double>(static_cast<float>(before[j * m + i]));
            const double error =
                std::fabs(expected - static_cast<double>(static_cast<float>(z.host[j * m + i])));
            worst = std::isnan(error) || error > worst ? error : worst;
          }
        CHECK(worst <= tolerance);
      }
  CHECK(device_check::none());
}

}  // namespace

TEST_CASE("products of every type agree with plain loops") {
  check_product<float, float, float>(CUBLAS_COMPUTE_32F, 1e-4);
  check_product<float, float, float>(CUBLAS_COMPUTE_32F_FAST_TF32, 1e-4);  // these values are exact in TF32
  check_product<double, double, double>(CUBLAS_COMPUTE_64F, 1e-4);         // compared as floats
  check_product<__nv_bfloat16, __nv_bfloat16, float>(CUBLAS_COMPUTE_32F, 0.5);
  check_product<__nv_bfloat16, float, float>(CUBLAS_COMPUTE_32F, 1e-4);
  check_product<__half, __half, float>(CUBLAS_COMPUTE_32F, 0.07);
  check_product<__half, __half, __half>(CUBLAS_COMPUTE_16F, 0.07);
}

TEST_CASE("TF32 drops 13 bits of each factor") {
  Product product(CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, 1, 1, 1, false, false);
  Block<float> x(1), y(1), z(1);
  const float value = 1 + std::ldexp(1.f, -12), one = 1;
  CHECK_OK(cudaMemcpy(x.device, &value, 4, cudaMemcpyHostToDevice));
  CHECK_OK(cudaMemcpy(y.device, &one, 4, cudaMemcpyHostToDevice));
  CHECK_STATUS(product.run(1.f, x.device, y.device, 0.f, z.device), CUBLAS_STATUS_SUCCESS);
  z.get();
  CHECK(z.host[0] == 1);
}

TEST_CASE("epilogues: bias, relu, gelu with its input, its gradient and the bias's") {
  constexpr int m = 16, n = 5, k = 7;
  Block<float> x(m * k, 1), y(k * n, 2), z(m * n), plain(m * n), bias(m, 4), auxiliary(m * n), gradient(m);
  Product product(CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, m, n, k, false, false);
  CHECK_STATUS(product.run(1.f, x.device, y.device, 0.f, plain.device), CUBLAS_STATUS_SUCCESS);
  plain.get();
  product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.device);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_BIAS);
  CHECK_STATUS(product.run(1.f, x.device, y.device, 0.f, z.device), CUBLAS_STATUS_SUCCESS);
  z.get();
  double worst = 0;
  for (int i = 0; i < m * n; ++i)
    worst = std::fmax(worst, std::fabs(std::fmax(plain.host[i] + bias.host[i % m], 0.f) - z.host[i]));
  CHECK(worst < 1e-5);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  CHECK_STATUS(product.run(1.f, x.device, y.device, 0.f, z.device),
               CUBLAS_STATUS_INVALID_VALUE);  // no auxiliary
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, auxiliary.device);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{m});
  CHECK_STATUS(product.run(1.f, x.device, y.device, 0.f, z.device), CUBLAS_STATUS_SUCCESS);
  z.get();
  auxiliary.get();
  worst = 0;
  for (int i = 0; i < m * n; ++i) {
    const double v = plain.host[i] + bias.host[i % m];
    const double expected = 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    worst = std::fmax(worst, std::fmax(std::fabs(v - auxiliary.host[i]), std::fabs(expected - z.host[i])));
  }
  CHECK(worst < 1e-5);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DGELU_BGRAD);
  product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, gradient.device);
  CHECK_STATUS(product.run(1.f, x.device, y.device, 0.f, z.device), CUBLAS_STATUS_SUCCESS);
  z.get();
  gradient.get();
  const auto gelu = [](double v) {
    return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
  };
  worst = 0;
  for (int i = 0; i < m; ++i) {
    double sum = 0;
    for (int j = 0; j < n; ++j) {
      const double v = auxiliary.host[j * m + i], h = 1e-5;
      const double expected = plain.host[j * m + i] * (gelu(v + h) - gelu(v - h)) / (2 * h);
      worst = std::fmax(worst, std::fabs(expected - z.host[j * m + i]));
      sum += expected;
    }
    worst = std::fmax(worst, std::fabs(sum - gradient.host[i]));
  }
  CHECK(worst < 1e-4);
  CHECK(device_check::none());
}

TEST_CASE("batches stand side by side, and rows as well as columns") {
  constexpr int m = 4, n = 3, k = 5, batches = 2;
  Block<float> x(m * k * batches, 1), y(k * n, 2), z(m * n * batches);
  Product product(CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, m, n, k, false, false);
  const int32_t count = batches, order = CUBLASLT_ORDER_ROW;
  const int64_t strides[] = {m * k, 0, m * n}, leading[] = {k, n, n};
  const cublasLtMatrixLayout_t layouts[] = {product.a, product.b, product.c};
  for (int i = 0; i < 3; ++i) {
    cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &strides[i], 8);
    cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
    cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_LD, &leading[i], 8);
  }
  CHECK_STATUS(product.run(1.f, x.device, y.device, 0.f, z.device), CUBLAS_STATUS_SUCCESS);
  z.get();
  double worst = 0;
  for (int b = 0; b < batches; ++b)
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int l = 0; l < k; ++l) sum += x.host[b * m * k + i * k + l] * y.host[l * n + j];
        worst = std::fmax(worst, std::fabs(sum - z.host[b * m * n + i * n + j]));
      }
  CHECK(worst < 1e-5);
}

TEST_CASE("what does not fit together is refused") {
  constexpr int m = 8, n = 8, k = 8;
  Block<float> x(m * k, 1), y(k * n, 2), z(m * n);
  const auto with = [&](auto change, cublasStatus_t wanted) {
    Product product(CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, m, n, k, false, false);
    change(product);
    CHECK_STATUS(product.run(1.f, x.device, y.device, 0.f, z.device), wanted);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    int found = -1;
    CHECK_STATUS(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    CHECK_STATUS(cublasLtMatmulAlgoGetHeuristic(product.handle, product.description, product.a, product.b,
                                                product.c, product.c, preference, 1, &result, &found),
                 wanted);
    CHECK_EQ(found, wanted == CUBLAS_STATUS_SUCCESS ? 1 : 0);
    cublasLtMatmulPreferenceDestroy(preference);
  };
  const auto layout = [](cublasLtMatrixLayout_t one, cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    cublasLtMatrixLayoutSetAttribute(one, attribute, &value, sizeof value);
  };
  with([](Product&) {}, CUBLAS_STATUS_SUCCESS);
  with([&](Product& p) { layout(p.a, CUBLASLT_MATRIX_LAYOUT_LD, int64_t{m - 1}); },
       CUBLAS_STATUS_INVALID_VALUE);
  with([&](Product& p) { layout(p.a, CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t{k - 1}); },
       CUBLAS_STATUS_INVALID_VALUE);
  with([&](Product& p) { layout(p.c, CUBLASLT_MATRIX_LAYOUT_ROWS, uint64_t{m - 1}); },
       CUBLAS_STATUS_INVALID_VALUE);
  with([&](Product& p) { layout(p.b, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t{2}); },
       CUBLAS_STATUS_INVALID_VALUE);
  with([&](Product& p) { layout(p.b, CUBLASLT_MATRIX_LAYOUT_TYPE, uint32_t{CUDA_R_64F}); },
       CUBLAS_STATUS_NOT_SUPPORTED);
  with([](Product& p) { p.set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_64F); },
       CUBLAS_STATUS_NOT_SUPPORTED);
  with([](Product& p) { p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_AUX); },
       CUBLAS_STATUS_NOT_SUPPORTED);
  with([](Product& p) { p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS); },
       CUBLAS_STATUS_INVALID_VALUE);
  Product product(CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, m, n, k, false, false);
  CHECK_STATUS(product.run(1.f, x.host.data(), y.device, 0.f, z.device), CUBLAS_STATUS_INVALID_VALUE);
  CHECK(device_check::only("bounds"));
  CHECK_STATUS(product.run(1.f, x.device + 8, y.device, 0.f, z.device), CUBLAS_STATUS_INVALID_VALUE);
  CHECK(device_check::only("bounds"));
  int32_t value = 0;
  CHECK_STATUS(cublasLtMatmulDescSetAttribute(product.description, CUBLASLT_MATMUL_DESC_TRANSA, &value, 1),
               CUBLAS_STATUS_INVALID_VALUE);
  cudaGetLastError();
}

TEST_CASE("a product is captured, and races with what nothing orders") {
  constexpr int m = 8, n = 8, k = 8;
  Block<float> x(m * k, 1), y(k * n, 2), z(m * n);
  Product product(CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, m, n, k, false, false);
  cudaStream_t a, b;
  CHECK_OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK_OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  CHECK_OK(cudaDeviceSynchronize());
  const float one = 1, zero = 0;
  const auto issue = [&](cudaStream_t stream) {
    return cublasLtMatmul(product.handle, product.description, &one, x.device, product.a, y.device, product.b,
                          &zero, z.device, product.c, z.device, product.c, nullptr, nullptr, 0, stream);
  };
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK_OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  CHECK_STATUS(issue(a), CUBLAS_STATUS_SUCCESS);
  CHECK_OK(cudaStreamEndCapture(a, &graph));
  CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) CHECK_OK(cudaGraphLaunch(exec, a));
  CHECK_OK(cudaStreamSynchronize(a));
  CHECK(device_check::none());
  CHECK_STATUS(issue(a), CUBLAS_STATUS_SUCCESS);
  CHECK_STATUS(issue(b), CUBLAS_STATUS_SUCCESS);
  CHECK_OK(cudaDeviceSynchronize());
  CHECK(device_check::only("stream-race"));
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK_OK(cudaStreamDestroy(a));
  CHECK_OK(cudaStreamDestroy(b));
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}

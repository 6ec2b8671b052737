// usage: elementwise_bits
// The functions of tensor/elementwise over 2^20 values each, on the card and on the host: the bits must be
// equal. Built with the CUDA sources; run by hand where there is a card. Ends with 77 where there is none.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "tensor/elementwise/activation.h"
#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/erf.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/gelu.h"
#include "tensor/elementwise/hyperbolic.h"
#include "tensor/elementwise/log.h"
#include "tensor/elementwise/normal_quantile.h"
#include "tensor/elementwise/op_lists.h"
#include "tensor/elementwise/power.h"
#include "tensor/elementwise/to_integer.h"
#include "tensor/elementwise/trigonometric.h"
#include "tensor/types/float_types.h"

namespace {

constexpr int64_t count = 1 << 20;

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(status));
  std::exit(1);
}
#define CHECK_CALL(call) check(call, #call)

/// `values` in memory of the card, until the end of the scope.
template <class T>
class OnCard {
 public:
  explicit OnCard(const std::vector<T>& values) : size_(values.size() * sizeof(T)) {
    CHECK_CALL(cudaMalloc(&data_, size_));
    CHECK_CALL(cudaMemcpy(data_, values.data(), size_, cudaMemcpyHostToDevice));
  }
  ~OnCard() { cudaFree(data_); }
  OnCard(const OnCard&) = delete;
  OnCard& operator=(const OnCard&) = delete;

  T* data() { return data_; }

 private:
  T* data_ = nullptr;
  size_t size_;
};

/// Values over the range of T: a quarter with exponents of -100 to 99, the rest up to 12, special ones among
/// them.
template <class T>
std::vector<T> inputs(uint64_t seed) {
  std::vector<T> values(count);
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const double u = static_cast<double>(static_cast<int64_t>(seed)) * 0x1p-63;
    values[i] = static_cast<T>(i % 4 == 0 ? std::ldexp(u, static_cast<int>(seed % 200) - 100) : u * 12);
  }
  const double special[] = {0.0,   -0.0,  INFINITY, -INFINITY, NAN, 1e30, -1e30,
                            1e-30, 1e-40, 88.8,     -104.0,    0.5, 1.5};
  int64_t i = 0;
  for (const double value : special) values[i++ * 7] = static_cast<T>(value);
  return values;
}

/// The same bits, or both NaN.
template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (a != a && b != b) return true;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// The functors: one a function, so that host and device run the same source.
#define UNARY(name)                                  \
  struct Unary_##name {                              \
    template <class T>                               \
    __host__ __device__ auto operator()(T x) const { \
      return tessera::elementwise::name(x);          \
    }                                                \
  };
TESSERA_UNARY_FLOAT_OPS(UNARY)
TESSERA_UNARY_NUMERIC_OPS(UNARY)
#define BINARY(name)                                      \
  struct Binary_##name {                                  \
    template <class T>                                    \
    __host__ __device__ auto operator()(T x, T y) const { \
      return tessera::elementwise::name(x, y);            \
    }                                                     \
  };
TESSERA_BINARY_NUMERIC_OPS(BINARY)
TESSERA_BINARY_FLOAT_OPS(BINARY)
struct NormalQuantile {
  __host__ __device__ double operator()(double x) const { return tessera::elementwise::normal_quantile(x); }
};
template <class Stored>
struct Rounded {
  __host__ __device__ float operator()(float x) const { return static_cast<float>(Stored(x)); }
};

template <class F, class Out, class... In>
__global__ void apply(F f, int64_t n, Out* out, const In*... in) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) out[i] = f(in[i]...);
}

int failed = 0, functions = 0;

template <class F, class... T>
void compare(const char* name, const char* type, F f, const std::vector<T>&... in) {
  using Out = decltype(f(in[0]...));
  std::vector<Out> result(count);
  OnCard<unsigned char> out(std::vector<unsigned char>(count * sizeof(Out), 0xa5));
  // Arguments live until the end of the full expression, as the launch and the wait need.
  [&](OnCard<T>&&... on_card) {
    apply<<<count / 256, 256>>>(f, count, reinterpret_cast<Out*>(out.data()),
                                static_cast<const T*>(on_card.data())...);
    CHECK_CALL(cudaGetLastError());
    CHECK_CALL(cudaDeviceSynchronize());
  }(OnCard<T>(in)...);
  CHECK_CALL(cudaMemcpy(result.data(), out.data(), count * sizeof(Out), cudaMemcpyDeviceToHost));
  int64_t differing = 0, first = -1;
  for (int64_t i = 0; i < count; ++i)
    if (!same<Out>(result[i], f(in[i]...))) {
      ++differing;
      if (first < 0) first = i;
    }
  ++functions;
  if (differing == 0) return;
  ++failed;
  std::printf("%s(%s): %lld of %lld values differ, first at", name, type, static_cast<long long>(differing),
              static_cast<long long>(count));
  (std::printf(" %a", static_cast<double>(in[first])), ...);
  std::printf(": %a on the card, %a on the host\n", static_cast<double>(result[first]),
              static_cast<double>(f(in[first]...)));
}

template <class T>
void compare_all(const char* type) {
  const std::vector<T> x = inputs<T>(1), y = inputs<T>(77);
#define COMPARE_UNARY(name) compare(#name, type, Unary_##name(), x);
  TESSERA_UNARY_FLOAT_OPS(COMPARE_UNARY)
  TESSERA_UNARY_NUMERIC_OPS(COMPARE_UNARY)
#define COMPARE_BINARY(name) compare(#name, type, Binary_##name(), x, y);
  TESSERA_BINARY_NUMERIC_OPS(COMPARE_BINARY)
  TESSERA_BINARY_FLOAT_OPS(COMPARE_BINARY)
}

}  // namespace

int main() {
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess || devices == 0) {
    std::printf("skipped: no card (%s)\n", cudaGetErrorString(status));
    return 77;
  }
  cudaDeviceProp properties;
  CHECK_CALL(cudaGetDeviceProperties(&properties, 0));
  compare_all<float>("f32");
  compare_all<double>("f64");
  std::vector<double> probabilities = inputs<double>(5);
  for (double& p : probabilities) p = std::isfinite(p) ? std::abs(std::fmod(p, 1.0)) : 0.5;
  compare("normal_quantile", "f64", NormalQuantile(), probabilities);
  compare("bfloat16", "f32", Rounded<tessera::bfloat16>(), inputs<float>(9));
  compare("float16", "f32", Rounded<tessera::float16>(), inputs<float>(9));
  std::printf("%s, compute capability %d.%d: %d functions over %lld values, %d differ from the host\n",
              properties.name, properties.major, properties.minor, functions, static_cast<long long>(count),
              failed);
  return failed == 0 ? 0 : 1;
}

#include "tensor/cpu/gemm_onednn.h"

#include "tensor/cpu/scratch.h"
#include "tensor/cpu/transpose.h"

#if defined(TESSERA_WITH_ONEDNN)

#include <omp.h>

#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

namespace tessera::kernels::cpu {
namespace {

using Dims = dnnl::memory::dims;

/// What a primitive is made for: extents, strides, dtypes and options, as plain numbers.
using Key = std::vector<int64_t>;

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, a word at a time
    for (int64_t word : key) hash = (hash ^ static_cast<uint64_t>(word)) * 0x100000001b3u;
    return hash;
  }
};

struct Product {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  uint64_t last_used = 0;
};

/// One per thread: a rank's primitives are made once and run without locks.
struct OneDnn {
  static constexpr size_t capacity = 256;

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::unordered_map<Key, Product, KeyHash> products;
  uint64_t uses = 0;

  Product* find(const Key& key) {
    const auto found = products.find(key);
    if (found == products.end()) return nullptr;
    found->second.last_used = ++uses;
    return &found->second;
  }
  Product& insert(const Key& key, dnnl::matmul::primitive_desc description) {
    if (products.size() == capacity) {
      auto oldest = products.begin();
      for (auto it = products.begin(); it != products.end(); ++it)
        if (it->second.last_used < oldest->second.last_used) oldest = it;
      products.erase(oldest);
    }
    Product product{description, dnnl::matmul(description), ++uses};
    return products.emplace(key, std::move(product)).first->second;
  }
};

OneDnn& onednn() {
  thread_local OneDnn instance;
  return instance;
}

/// oneDNN asks OpenMP how many threads it may take: one while this lives, the calling one. Threads are ours.
class SingleThreadScope {
 public:
  SingleThreadScope() : previous_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreadScope() { omp_set_num_threads(previous_); }
  SingleThreadScope(const SingleThreadScope&) = delete;
  SingleThreadScope& operator=(const SingleThreadScope&) = delete;

 private:
  int previous_;
};

dnnl::memory::data_type type_of(const Tensor& x) {
  return x.dtype() == f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

/// A broadcast dimension is one of extent 1 to oneDNN.
dnnl::memory::desc describe_operand(const Tensor& x) {
  Dims dims, strides;
  for (int i = 0; i < x.rank(); ++i) {
    dims.push_back(x.strides()[i] == 0 ? 1 : x.shape()[i]);
    strides.push_back(x.strides()[i] == 0 ? 1 : x.strides()[i]);
  }
  return {dims, type_of(x), strides};
}

dnnl::memory::desc describe_bias(const Tensor& bias, int rank) {
  if (!bias.defined()) return {};
  Dims dims(rank, 1), strides(rank, bias.numel());
  dims.back() = bias.numel();
  strides.back() = 1;
  return {dims, type_of(bias), strides};
}

void append(Key& key, const Tensor& x) {
  if (!x.defined()) return key.push_back(-1);
  key.push_back(static_cast<int64_t>(x.dtype()));
  key.insert(key.end(), x.shape().begin(), x.shape().end());
  key.insert(key.end(), x.strides().begin(), x.strides().end());
}

Product& product_for(OneDnn& dnn, const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                     bool accumulate) {
  thread_local Key key;
  key.assign({accumulate, a.rank()});
  for (const Tensor* x : {&a, &b, &bias, &out}) append(key, *x);
  if (Product* product = dnn.find(key)) return *product;

  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::desc operation(describe_operand(a), describe_operand(b), describe_bias(bias, a.rank()),
                                     describe_operand(out));
  return dnn.insert(key, {operation, attributes, dnn.engine});
}

}  // namespace

bool onednn_built() {
  return true;
}

namespace {

bool allows(dnnl::cpu_isa isa) {
  const auto needed = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

}  // namespace

bool onednn_multiplies_bf16() {
  static const bool multiplies = allows(dnnl::cpu_isa::avx512_core_bf16);
  return multiplies;
}

bool onednn_has_tiles() {
  static const bool has = allows(dnnl::cpu_isa::avx512_core_amx);
  return has;
}

namespace {

/// As in y = x W^T: a second operand that is transposed slows sgemm down, most of all in small products such
/// as a head's q k^T. A copy that stays in the second-level cache pays from a few rows on.
bool copy_pays(const Gemm<float>& gemm) {
  return gemm.b_transposed && gemm.m >= 16 && gemm.k * gemm.n <= 1 << 17;
}

}  // namespace

void gemm_onednn_f32(const Gemm<float>& gemm) {
  if (copy_pays(gemm)) {
    const Scratch<float> turned(gemm.k * gemm.n);
    TESSERA_PER_ISA(transpose_f32)(gemm.b, gemm.ldb, gemm.n, gemm.k, turned.get(), gemm.n);
    Gemm<float> product = gemm;
    product.b = turned.get();
    product.ldb = gemm.n;
    product.b_transposed = false;
    return gemm_onednn_f32(product);
  }
  const SingleThreadScope scope;
  const dnnl::status status =
      dnnl::sgemm(gemm.a_transposed ? 'T' : 'N', gemm.b_transposed ? 'T' : 'N', gemm.m, gemm.n, gemm.k, 1.0f,
                  gemm.a, gemm.lda, gemm.b, gemm.ldb, gemm.accumulate ? 1.0f : 0.0f, gemm.c, gemm.ldc);
  require<Error>(status == dnnl::status::success, "matmul: oneDNN's sgemm failed with status ",
                 static_cast<int>(status), " on (", gemm.m, ", ", gemm.k, ") by (", gemm.k, ", ", gemm.n,
                 ")");
}

void matmul_onednn_bf16(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                        bool accumulate) {
  const SingleThreadScope scope;
  OneDnn& dnn = onednn();
  Product& product = product_for(dnn, a, b, bias, out, accumulate);
  const auto& description = product.description;
  const Tensor scratch = Tensor::empty({static_cast<int64_t>(description.scratchpad_desc().get_size())}, u8);
  const auto memory = [&](const dnnl::memory::desc& layout, const Tensor& x) {
    return dnnl::memory(layout, dnn.engine, x.raw_data());
  };
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, memory(description.src_desc(), a)},
      {DNNL_ARG_WEIGHTS, memory(description.weights_desc(), b)},
      {DNNL_ARG_DST, memory(description.dst_desc(), out)},
      {DNNL_ARG_SCRATCHPAD, memory(description.scratchpad_desc(), scratch)}};
  if (bias.defined()) arguments.emplace(DNNL_ARG_BIAS, memory(description.bias_desc(), bias));
  product.primitive.execute(dnn.stream, arguments);
}

}  // namespace tessera::kernels::cpu

#else

namespace tessera::kernels::cpu {

bool onednn_built() {
  return false;
}
bool onednn_multiplies_bf16() {
  return false;
}
bool onednn_has_tiles() {
  return false;
}
void gemm_onednn_f32(const Gemm<float>&) {
  throw NotBuiltError("matmul: this build has no oneDNN");
}
void matmul_onednn_bf16(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool) {
  throw NotBuiltError("matmul: this build has no oneDNN");
}

}  // namespace tessera::kernels::cpu

#endif

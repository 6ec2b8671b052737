// bf16 products by oneDNN's primitives, each executed by one thread on its block of columns of c (of rows,
// where there are few columns). The second operand is packed into the layout that the primitive asks for
// (pairs or tiles of bf16), each thread packing its own block. A weight is thus packed once a step for the
// forward and once for the backward.

#include "tensor/cpu/gemm/onednn/gemm_onednn.h"

#if defined(TESSERA_WITH_ONEDNN)

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tensor/cpu/gemm/onednn/onednn_threads.h"
#include "tensor/cpu/gemm/sharing/product_blocks.h"
#include "tensor/cpu/gemm/sharing/shared_path.h"
#include "tensor/cpu/loops/scratch.h"

namespace tessera::kernels::cpu {
namespace {

using Dims = dnnl::memory::dims;

/// What a primitive depends on: extents, strides, dtypes and options, as integers.
using Key = std::vector<int64_t>;

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, a word at a time
    for (int64_t word : key) hash = (hash ^ static_cast<uint64_t>(word)) * 0x100000001b3u;
    return hash;
  }
};

/// A product, and the reorder that packs its second operand; empty where the operand is read in place.
struct Product {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  std::optional<dnnl::reorder> pack;
  uint64_t last_used = 0;
};

/// One per thread: primitives are made once and used without locks.
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
  Product& insert(const Key& key, Product product) {
    if (products.size() == capacity) {
      auto oldest = products.begin();
      for (auto it = products.begin(); it != products.end(); ++it)
        if (it->second.last_used < oldest->second.last_used) oldest = it;
      products.erase(oldest);
    }
    product.last_used = ++uses;
    return products.emplace(key, std::move(product)).first->second;
  }
};

OneDnn& onednn() {
  thread_local OneDnn instance;
  return instance;
}

/// The operands of one thread's product.
struct Operands {
  Tensor a, b, bias, out;
  bool accumulate;
};

dnnl::memory::data_type type_of(const Tensor& x) {
  return x.dtype() == f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

/// oneDNN describes a broadcast dimension by an extent of 1.
dnnl::memory::desc describe_operand(const Tensor& x) {
  Dims dims, strides;
  for (int i = 0; i < x.ndim(); ++i) {
    dims.push_back(x.strides()[i] == 0 ? 1 : x.shape()[i]);
    strides.push_back(x.strides()[i] == 0 ? 1 : x.strides()[i]);
  }
  return {dims, type_of(x), strides};
}

dnnl::memory::desc describe_bias(const Tensor& bias, int ndim) {
  if (!bias.defined()) return {};
  Dims dims(ndim, 1), strides(ndim, bias.numel());
  dims.back() = bias.numel();
  strides.back() = 1;
  return {dims, type_of(bias), strides};
}

/// The fewest rows for which packing the second operand is faster.
constexpr int64_t min_rows_to_pack = 64;

/// `b` in the layout that the primitive chooses.
dnnl::memory::desc describe_packed(const Tensor& b) {
  return {{b.size(0), b.size(1)}, type_of(b), dnnl::memory::format_tag::any};
}

void append(Key& key, const Tensor& x) {
  if (!x.defined()) return key.push_back(-1);
  key.push_back(static_cast<int64_t>(x.dtype()));
  key.insert(key.end(), x.shape().begin(), x.shape().end());
  key.insert(key.end(), x.strides().begin(), x.strides().end());
}

Product make_product(OneDnn& dnn, const Operands& o) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (o.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const bool packs = o.b.ndim() == 2 && o.a.size(0) >= min_rows_to_pack;
  const dnnl::memory::desc b = describe_operand(o.b);
  const dnnl::matmul::desc operation(describe_operand(o.a), packs ? describe_packed(o.b) : b,
                                     describe_bias(o.bias, o.a.ndim()), describe_operand(o.out));
  const dnnl::matmul::primitive_desc description(operation, attributes, dnn.engine);
  std::optional<dnnl::reorder> pack;
  if (description.weights_desc() != b)
    pack.emplace(dnnl::reorder::primitive_desc(dnn.engine, b, dnn.engine, description.weights_desc()));
  return {description, dnnl::matmul(description), std::move(pack)};
}

Product& product_for(OneDnn& dnn, const Operands& o) {
  thread_local Key key;
  key.assign({o.accumulate, o.a.ndim()});
  for (const Tensor* x : {&o.a, &o.b, &o.bias, &o.out}) append(key, *x);
  if (Product* product = dnn.find(key)) return *product;
  return dnn.insert(key, make_product(dnn, o));
}

/// The product in the calling thread.
void multiply(const Operands& o) {
  const SingleThreadScope scope;
  OneDnn& dnn = onednn();
  Product& product = product_for(dnn, o);
  const auto& description = product.description;
  const auto memory = [&](const dnnl::memory::desc& layout, void* data) {
    return dnnl::memory(layout, dnn.engine, data);
  };
  const auto bytes = [](const dnnl::memory::desc& layout) { return static_cast<int64_t>(layout.get_size()); };
  const Scratch<uint8_t> scratch(bytes(description.scratchpad_desc()));
  const Scratch<uint8_t> packed(product.pack ? bytes(description.weights_desc()) : 0);
  dnnl::memory b = memory(describe_operand(o.b), o.b.raw_data());
  if (product.pack) {
    dnnl::memory to = memory(description.weights_desc(), packed.get());
    product.pack->execute(dnn.stream, b, to);
    b = to;
  }
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, memory(description.src_desc(), o.a.raw_data())},
      {DNNL_ARG_WEIGHTS, b},
      {DNNL_ARG_DST, memory(description.dst_desc(), o.out.raw_data())},
      {DNNL_ARG_SCRATCHPAD, memory(description.scratchpad_desc(), scratch.get())}};
  if (o.bias.defined()) arguments.emplace(DNNL_ARG_BIAS, memory(description.bias_desc(), o.bias.raw_data()));
  product.primitive.execute(dnn.stream, arguments);
}

constexpr int64_t grain = library_bf16_path.grain;

/// One matrix product, cut into blocks of c.
void multiply_matrices(const Operands& o) {
  const int64_t m = o.out.size(0), n = o.out.size(1);
  for_each_block(
      {.count = 1, .m = m, .n = n, .k = o.a.size(1)}, grain,
      [&](int64_t parts) { return fastest_cut(m, n, parts, library_bf16_path.costs); },
      [&](int64_t, const ProductBlock& block) {
        const auto [row, rows, column, columns] = block;
        multiply({o.a.narrow(0, row, rows), o.b.narrow(1, column, columns),
                  o.bias.defined() ? o.bias.narrow(0, column, columns) : o.bias,
                  o.out.narrow(0, row, rows).narrow(1, column, columns), o.accumulate});
      });
}

/// The operands at one index of the first batch dimension.
Operands at(const Operands& o, int64_t index) {
  return {o.a.select(0, index), o.b.select(0, index), o.bias, o.out.select(0, index), o.accumulate};
}

/// The products of a batch. Threads share its first dimensions, as many as give each of them some; each calls
/// one primitive for its range of the first one, or for the rest of a batch at one index of several.
void multiply_batch(const Operands& o) {
  const int dims = o.out.ndim() - 2;
  int shared = 1;
  int64_t count = o.out.size(0);
  while (shared < dims && count < num_threads()) count *= o.out.size(shared++);
  const int64_t work = o.out.numel() * o.a.size(-1);
  parallel_for(count, std::max<int64_t>(1, grain * count / (work + 1)), [&](int64_t begin, int64_t end) {
    if (shared == 1) {
      const auto range = [&](const Tensor& x) { return x.narrow(0, begin, end - begin); };
      return multiply({range(o.a), range(o.b), o.bias, range(o.out), o.accumulate});
    }
    for (int64_t i = begin; i < end; ++i) {
      Operands part = o;
      int64_t inner = count, rest = i;
      for (int d = 0; d < shared; ++d) {
        inner /= o.out.size(d);
        part = at(part, rest / inner);
        rest %= inner;
      }
      multiply(part);
    }
  });
}

}  // namespace

void matmul_onednn_bf16(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& out,
                        bool accumulate) {
  Operands operands{a, b, bias, out, accumulate};
  while (operands.out.ndim() > 2 && operands.out.size(0) == 1) operands = at(operands, 0);
  operands.out.ndim() == 2 ? multiply_matrices(operands) : multiply_batch(operands);
}

}  // namespace tessera::kernels::cpu

#else

namespace tessera::kernels::cpu {

void matmul_onednn_bf16(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool) {
  throw NotBuiltError("matmul: this build has no oneDNN");
}

}  // namespace tessera::kernels::cpu

#endif

// Attention in blocks of queries. For every head and block: the products q k^T of the keys that the block can
// see, rows of softmax while they are in the cache, and the product with v. The backward recomputes the
// weights from the log-sum-exp: five products where the forward has two. Heads are shared out among threads;
// within a head the order is fixed, so the bits depend on no thread count.

#include "tensor/cpu/attention.h"

#include <algorithm>

#include "tensor/cpu/gemm_eigen.h"
#include "tensor/cpu/matmul.h"
#include "tensor/memory/cpu_allocator.h"
#include "tensor/parallel.h"

namespace tessera::kernels::cpu {
namespace {

/// A head's matrix: rows `stride` elements apart.
template <class A>
struct Rows {
  A* data;
  int64_t stride;
  A* row(int64_t i) const { return data + i * stride; }
};

template <class A>
Rows<A> head_of(const Tensor& x, int64_t b, int64_t h) {
  return {static_cast<A*>(x.raw_data()) + b * x.strides()[0] + h * x.strides()[1], x.strides()[2]};
}

void multiply(const Gemm<float>& gemm) {
  f32_gemm()(gemm);
}
void multiply(const Gemm<double>& gemm) {
  TESSERA_PER_ISA(gemm_eigen_f64)(gemm);
}

// The row kernels of this processor, by type.
float attention_weights(float* s, int64_t n, int64_t width, float scale) {
  return TESSERA_PER_ISA(attention_weights_f32)(s, n, width, scale);
}
double attention_weights(double* s, int64_t n, int64_t width, double scale) {
  return TESSERA_PER_ISA(attention_weights_f64)(s, n, width, scale);
}
void attention_weights_again(float* s, int64_t n, int64_t width, float scale, float lse) {
  TESSERA_PER_ISA(attention_weights_again_f32)(s, n, width, scale, lse);
}
void attention_weights_again(double* s, int64_t n, int64_t width, double scale, double lse) {
  TESSERA_PER_ISA(attention_weights_again_f64)(s, n, width, scale, lse);
}
void attention_slopes(const float* p, float* ds, int64_t n, int64_t width, float dot, float scale) {
  TESSERA_PER_ISA(attention_slopes_f32)(p, ds, n, width, dot, scale);
}
void attention_slopes(const double* p, double* ds, int64_t n, int64_t width, double dot, double scale) {
  TESSERA_PER_ISA(attention_slopes_f64)(p, ds, n, width, dot, scale);
}
float attention_dot(const float* a, const float* b, int64_t n) {
  return TESSERA_PER_ISA(attention_dot_f32)(a, b, n);
}
double attention_dot(const double* a, const double* b, int64_t n) {
  return TESSERA_PER_ISA(attention_dot_f64)(a, b, n);
}
void attention_mask(const MaskRow& row, const float* in, float* out, int64_t n) {
  TESSERA_PER_ISA(attention_mask_f32)(row, in, out, n);
}
void attention_mask(const MaskRow& row, const double* in, double* out, int64_t n) {
  TESSERA_PER_ISA(attention_mask_f64)(row, in, out, n);
}

/// Scratch memory of one thread, from the caching allocator, entered in no account (it lives for one call).
template <class A>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(count * static_cast<int64_t>(sizeof(A))), data_(cpu_allocate(bytes_)) {}
  ~Scratch() { cpu_free(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  A* get() const { return static_cast<A*>(data_); }

 private:
  int64_t bytes_;
  void* data_;
};

/// The sizes of a call, and what a block of queries sees.
struct Extents {
  int64_t batch, heads, queries, keys, width, block;
  bool causal;

  explicit Extents(const AttentionCall& call)
      : batch(call.q.shape()[0]),
        heads(call.q.shape()[1]),
        queries(call.q.shape()[2]),
        keys(call.k.shape()[2]),
        width(call.q.shape()[3]),
        block(std::clamp<int64_t>(65536 / std::max<int64_t>(keys, 1), 16, 64)),
        causal(call.causal) {}

  /// Keys that query i sees.
  int64_t seen(int64_t i) const {
    return causal ? std::clamp<int64_t>(i + 1 + keys - queries, 0, keys) : keys;
  }
};

/// Row `row` (of all heads' queries, in order) of a sample's mask, `keys` wide.
MaskRow mask_row(double dropout, uint64_t key, int64_t step, int64_t sample, int64_t row, int64_t keys) {
  return {.key = key,
          .first = static_cast<uint64_t>(row * keys),
          .threshold = static_cast<uint64_t>(dropout * 0x1p32 + 0.5),
          .sample = static_cast<uint32_t>(sample),
          .step = static_cast<uint32_t>(step),
          .scale = 1.0 / (1.0 - dropout)};
}

MaskRow mask_row(const AttentionCall& call, const Extents& e, int64_t b, int64_t h, int64_t i) {
  return mask_row(call.dropout, call.key, call.step, call.samples.empty() ? b : call.samples[b],
                  h * e.queries + i, e.keys);
}

template <class A>
void forward_head(const AttentionCall& call, const Extents& e, int64_t b, int64_t h, A* s) {
  const Rows<A> q = head_of<A>(call.q, b, h), k = head_of<A>(call.k, b, h), v = head_of<A>(call.v, b, h);
  const Rows<A> out = head_of<A>(call.out, b, h);
  A* lse = static_cast<A*>(call.log_sum_exp.raw_data()) + (b * e.heads + h) * e.queries;
  for (int64_t i0 = 0; i0 < e.queries; i0 += e.block) {
    const int64_t rows = std::min(e.block, e.queries - i0), keys = e.seen(i0 + rows - 1);
    if (keys == 0) {
      for (int64_t r = 0; r < rows; ++r) std::fill_n(out.row(i0 + r), e.width, A(0));
      std::fill_n(lse + i0, rows, -__builtin_huge_valf());
      continue;
    }
    multiply({rows, keys, e.width, q.row(i0), q.stride, false, k.data, k.stride, true, s, keys, false});
    for (int64_t r = 0; r < rows; ++r) {
      A* row = s + r * keys;
      lse[i0 + r] = attention_weights(row, e.seen(i0 + r), keys, static_cast<A>(call.scale));
      if (call.dropout > 0) attention_mask(mask_row(call, e, b, h, i0 + r), row, row, keys);
    }
    multiply({rows, e.width, keys, s, keys, false, v.data, v.stride, false, out.row(i0), out.stride, false});
  }
}

/// The gradients' tensors of a backward.
struct AttentionGradients {
  const Tensor &dout, &dq, &dk, &dv;
};

template <class A>
void backward_head(const AttentionCall& call, const AttentionGradients& g, const Extents& e, int64_t b,
                   int64_t h, A* p, A* ds, A* masked) {
  const Rows<A> q = head_of<A>(call.q, b, h), k = head_of<A>(call.k, b, h), v = head_of<A>(call.v, b, h);
  const Rows<A> out = head_of<A>(call.out, b, h), dout = head_of<A>(g.dout, b, h);
  const Rows<A> dq = head_of<A>(g.dq, b, h), dk = head_of<A>(g.dk, b, h), dv = head_of<A>(g.dv, b, h);
  const A* lse = static_cast<const A*>(call.log_sum_exp.raw_data()) + (b * e.heads + h) * e.queries;
  const A scale = static_cast<A>(call.scale);
  for (int64_t j = 0; j < e.keys; ++j) {
    std::fill_n(dk.row(j), e.width, A(0));
    std::fill_n(dv.row(j), e.width, A(0));
  }
  for (int64_t i0 = 0; i0 < e.queries; i0 += e.block) {
    const int64_t rows = std::min(e.block, e.queries - i0), keys = e.seen(i0 + rows - 1);
    if (keys == 0) {
      for (int64_t r = 0; r < rows; ++r) std::fill_n(dq.row(i0 + r), e.width, A(0));
      continue;
    }
    multiply({rows, keys, e.width, q.row(i0), q.stride, false, k.data, k.stride, true, p, keys, false});
    multiply(
        {rows, keys, e.width, dout.row(i0), dout.stride, false, v.data, v.stride, true, ds, keys, false});
    A* used = call.dropout > 0 ? masked : p;  // the weights that the forward multiplied v by
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = i0 + r, seen = e.seen(i);
      attention_weights_again(p + r * keys, seen, keys, scale, lse[i]);
      if (call.dropout > 0) {
        const MaskRow mask = mask_row(call, e, b, h, i);
        attention_mask(mask, p + r * keys, masked + r * keys, keys);
        attention_mask(mask, ds + r * keys, ds + r * keys, keys);
      }
      const A dot = attention_dot(out.row(i), dout.row(i), e.width);
      attention_slopes(p + r * keys, ds + r * keys, seen, keys, dot, scale);
    }
    multiply(
        {keys, e.width, rows, used, keys, true, dout.row(i0), dout.stride, false, dv.data, dv.stride, true});
    multiply({keys, e.width, rows, ds, keys, true, q.row(i0), q.stride, false, dk.data, dk.stride, true});
    multiply({rows, e.width, keys, ds, keys, false, k.data, k.stride, false, dq.row(i0), dq.stride, false});
  }
}

template <class A>
void forward(const AttentionCall& call) {
  const Extents e(call);
  parallel_for(e.batch * e.heads, 1, [&](int64_t begin, int64_t end) {
    const Scratch<A> s(e.block * e.keys);
    for (int64_t i = begin; i < end; ++i) forward_head<A>(call, e, i / e.heads, i % e.heads, s.get());
  });
}

template <class A>
void backward(const AttentionCall& call, const AttentionGradients& gradients) {
  const Extents e(call);
  parallel_for(e.batch * e.heads, 1, [&](int64_t begin, int64_t end) {
    const int64_t size = e.block * e.keys;
    const Scratch<A> scratch((call.dropout > 0 ? 3 : 2) * size);
    A* const p = scratch.get();
    for (int64_t i = begin; i < end; ++i)
      backward_head<A>(call, gradients, e, i / e.heads, i % e.heads, p, p + size, p + 2 * size);
  });
}

}  // namespace

void attention(const AttentionCall& call) {
  call.q.dtype() == f64 ? forward<double>(call) : forward<float>(call);
}

namespace {

template <class A>
void dropout_factors(const Tensor& factors, double dropout, uint64_t key, int64_t step,
                     std::span<const int64_t> samples) {
  const int64_t rows = factors.size(1) * factors.size(2), keys = factors.size(3);
  A* const all = factors.data<A>();
  parallel_for(factors.size(0) * rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / rows;
      std::fill_n(all + i * keys, keys, A(1));
      attention_mask(mask_row(dropout, key, step, samples.empty() ? b : samples[b], i % rows, keys),
                     all + i * keys, all + i * keys, keys);
    }
  });
}

}  // namespace

void attention_dropout(const Tensor& factors, double dropout, uint64_t key, int64_t step,
                       std::span<const int64_t> samples) {
  factors.dtype() == f64 ? dropout_factors<double>(factors, dropout, key, step, samples)
                         : dropout_factors<float>(factors, dropout, key, step, samples);
}

void attention_backward(const AttentionCall& call, const Tensor& dout, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv) {
  const AttentionGradients gradients{dout, dq, dk, dv};
  call.q.dtype() == f64 ? backward<double>(call, gradients) : backward<float>(call, gradients);
}

}  // namespace tessera::kernels::cpu

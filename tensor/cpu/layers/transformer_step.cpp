// A transformer's block for one position of each row. Its time is that of reading the weights: each product
// reads its weight once, all threads sharing its columns. What is between two products takes a few passes
// over R C values, and is done where the product's sums are, or by one thread before the next product.
#include "tensor/cpu/layers/transformer_step.h"

#include <cmath>

#include "tensor/arguments/activation_table.h"
#include "tensor/cpu/attention/attention_products.h"
#include "tensor/cpu/gemm/thin/gemm_int8.h"
#include "tensor/cpu/gemm/thin/gemm_thin.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/normalization_rows.h"
#include "tensor/cpu/loops/scratch.h"

namespace tessera::kernels::cpu {
namespace {

using ops::TransformerStepWeights;

/// A second thread attends from so many multiply-adds on.
constexpr int64_t attention_grain = 1 << 15;

template <class T>
const T* data_of(const Tensor& x) {
  return x.defined() ? static_cast<const T*>(x.raw_data()) : nullptr;
}

/// A vector in f32: the weight itself, or a widened copy.
class WideVector {
 public:
  explicit WideVector(const Tensor& x) : copy_(x.defined() && x.dtype() == bf16 ? x.numel() : 0) {
    if (!x.defined()) return;
    values_ = copy_.get() ? copy_.get() : data_of<float>(x);
    if (copy_.get()) widen_contiguous(data_of<bfloat16>(x), x.numel(), copy_.get());
  }
  const float* get() const { return values_; }

 private:
  Scratch<float> copy_;
  const float* values_ = nullptr;
};

/// T: of keys, values, norms and biases; W: of the linear weights, T or int8_t.
template <class T, class W>
class Step {
 public:
  Step(const Tensor& x, const TransformerStepWeights& w, const Tensor& keys, const Tensor& values,
       std::span<const int64_t> lengths)
      : w_(w),
        x_(x.data<float>()),
        keys_(static_cast<T*>(keys.raw_data())),
        values_(static_cast<T*>(values.raw_data())),
        lengths_(lengths),
        rows_(x.size(0)),
        width_(x.size(1)),
        heads_(keys.size(1)),
        capacity_(keys.size(2)),
        wide_(w.widening.size(0)),
        rows_of_width_(rows_ * width_),
        qkv_(3 * rows_ * width_),
        arranged_(rows_ * thin_stride(std::max(width_, wide_))),
        arranged_wide_(rows_ * thin_stride(wide_)) {}

  void run() const {
    norm(w_.norm_1, w_.norm_1_bias);
    multiply(width_, {w_.qkv, w_.qkv_scales, w_.qkv_bias}, arranged_.get(),
             [&](int64_t i, int64_t j, int64_t n, float* sums) {
               std::copy_n(sums, n, qkv_.get() + i * 3 * width_ + j);
             });
    attend();
    arrange_thin_sums<W>(rows_of_width_.get(), width_, rows_, width_, arranged_.get());
    multiply(width_, {w_.projection, w_.projection_scales, w_.projection_bias}, arranged_.get(), add_to_x());
    norm(w_.norm_2, w_.norm_2_bias);
    const UnaryBlock activation = TESSERA_PER_ISA(unary_block)(row_of(w_.activation).forward, f32);
    const int64_t stride = thin_stride(wide_);
    multiply(width_, {w_.widening, w_.widening_scales, w_.widening_bias}, arranged_.get(),
             [&](int64_t i, int64_t j, int64_t n, float* sums) {
               activation(sums, sums, n);
               arrange_thin_sums<W>(sums, n, 1, n, arranged_wide_.get() + i * stride + j);
             });
    multiply(wide_, {w_.narrowing, w_.narrowing_scales, w_.narrowing_bias}, arranged_wide_.get(), add_to_x());
  }

 private:
  struct LinearWeight {
    const Tensor &values, &scales, &bias;
  };

  /// The norm of x, arranged for a product.
  void norm(const Tensor& weight, const Tensor& bias) const {
    const WideVector factors(weight), added(bias);
    const Scratch<float> statistics(2 * rows_);
    TESSERA_PER_ISA(normalization_rows_f32)
    ().forward(x_, nullptr, rows_, width_, factors.get(), added.get(), static_cast<float>(w_.epsilon),
               nullptr, rows_of_width_.get(), statistics.get(), statistics.get() + rows_);
    arrange_thin_sums<W>(rows_of_width_.get(), width_, rows_, width_, arranged_.get());
  }

  /// Calls finish(row, column, count, sums) for the elements of a W^T + bias.
  template <class Finish>
  void multiply(int64_t k, const LinearWeight& w, const float* a, const Finish& finish) const {
    const T* const added = data_of<T>(w.bias);
    const float* const scales = data_of<float>(w.scales);
    thin_columns(rows_, w.values.size(0), k, a, data_of<W>(w.values), k,
                 [&](int64_t j, int64_t n, float* sums) {
                   if (scales) scale_thin_columns(rows_, n, scales + j, sums);
                   float row[thin_columns_at_once];
                   if (added) widen_contiguous(added + j, n, row);
                   for (int64_t i = 0; i < rows_; ++i, sums += thin_columns_at_once) {
                     if (added)
                       for (int64_t c = 0; c < n; ++c) sums[c] += row[c];
                     finish(i, j, n, sums);
                   }
                 });
  }

  auto add_to_x() const {
    return [this](int64_t i, int64_t j, int64_t n, const float* sums) {
      float* const to = x_ + i * width_ + j;
      for (int64_t c = 0; c < n; ++c) to[c] += sums[c];
    };
  }

  void attend() const {
    int64_t longest = 0;
    for (const int64_t length : lengths_) longest = std::max(longest, length + 1);
    const int64_t work = 2 * longest * (width_ / heads_);
    parallel_for(rows_ * heads_, (attention_grain + work - 1) / work, [&](int64_t begin, int64_t end) {
      const int64_t head = width_ / heads_;
      const Scratch<float> scores(row_leading<float>(longest)), query(thin_stride(head));
      for (int64_t i = begin; i < end; ++i) attend(i / heads_, i % heads_, scores.get(), query.get());
    });
  }

  /// Appends the new key and value of a head, and computes its result.
  void attend(int64_t r, int64_t h, float* scores, float* query) const {
    const int64_t head = width_ / heads_, length = lengths_[static_cast<size_t>(r)], count = length + 1;
    const float* const q = qkv_.get() + r * 3 * width_ + h * head;
    T* const keys = keys_ + (r * heads_ + h) * capacity_ * head;
    T* const values = values_ + (r * heads_ + h) * capacity_ * head;
    narrow_contiguous(q + width_, head, keys + length * head);
    narrow_contiguous(q + 2 * width_, head, values + length * head);
    arrange_thin_sums<T>(q, head, 1, head, query);
    thin_product(ThinProduct<T>{1, count, head, query, keys, head, scores, count});
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head)));
    const AttentionRow<float> row{count, count, scale, scale};
    const auto& kernels = *TESSERA_PER_ISA(attention_rows_f32)();
    float largest, sum, factor;
    kernels.weights(
        {&row, 1, row_leading<float>(count), scores, nullptr, scores, &largest, &sum, nullptr, true});
    kernels.invert(1, &largest, &sum, &factor);
    float* const result = rows_of_width_.get() + r * width_ + h * head;
    thin_row_product(ThinRowProduct<T>{1, head, count, scores, count, values, head, result, head});
    kernels.scale(result, head, &factor, result, head, 1, head);
  }

  const TransformerStepWeights& w_;
  float* x_;
  T *keys_, *values_;
  std::span<const int64_t> lengths_;
  int64_t rows_, width_, heads_, capacity_, wide_;
  Scratch<float> rows_of_width_, qkv_, arranged_, arranged_wide_;
};

}  // namespace

void transformer_step(const Tensor& x, const TransformerStepWeights& weights, const Tensor& keys,
                      const Tensor& values, std::span<const int64_t> lengths) {
  if (x.numel() == 0) return;
  const bool is_int8 = weights.qkv_scales.defined();
  if (keys.dtype() == f32)
    return is_int8 ? Step<float, int8_t>(x, weights, keys, values, lengths).run()
                   : Step<float, float>(x, weights, keys, values, lengths).run();
  is_int8 ? Step<bfloat16, int8_t>(x, weights, keys, values, lengths).run()
          : Step<bfloat16, bfloat16>(x, weights, keys, values, lengths).run();
}

}  // namespace tessera::kernels::cpu

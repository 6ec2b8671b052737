// A linear layer of f(x), where x is the widest tensor of a transformer block. f(x) is computed in blocks of
// rows that the matrix product after it has in the second-level cache, and is not kept. The backward is
// activation_linear_backward.cpp.

#include "tensor/cpu/layers/activation_linear.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "tensor/cpu/gemm/packed/gemm_packed.h"
#include "tensor/cpu/gemm/packed/packed_ranges.h"
#include "tensor/cpu/gemm/sharing/product_blocks.h"
#include "tensor/cpu/gemm/sharing/shared_work.h"
#include "tensor/cpu/gemm/thin/gemm_thin.h"
#include "tensor/cpu/layers/activation_products.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/transpose.h"

namespace tessera::kernels::cpu {
namespace {

/// The most columns of f(x) that one product of the forward sums over; by our kernels it is one of their
/// ranges.
constexpr int64_t max_depth = 1024;
/// Of fewer rows the weight is not copied for the call.
constexpr int64_t least_copied_rows = 48;

template <class T>
void add_bias(const T* bias, int64_t rows, int64_t columns, T* y) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; ++j) y[r * columns + j] += bias[j];
}

/// y = f(x) W^T + bias in blocks of rows of f(x), the weight in the layout that the chosen product reads
/// fastest: packed, or for oneDNN's f32 product a transposed copy (in, out).
template <class T>
class ForwardWeight {
 public:
  ForwardWeight(const Tensor& weight, const T* bias, const ActivationLinearExtents& e)
      : data_(static_cast<const T*>(weight.raw_data())), bias_(bias), in_(e.in), out_(e.out) {
    if constexpr (std::is_same_v<T, float>) {
      product_ = f32_product({e.rows, false});
      if (product_ == F32Product::packed) {
        const float* const kept = kept_panels_f32(weight, data_, in_, true, in_, out_, e.rows);
        packed_.emplace(in_, kept ? 0 : out_);
        kept ? packed_->take_panels(kept, in_, 0, out_)
             : packed_->pack_in_parallel(data_, in_, true, in_, out_);
      } else if (e.rows >= least_copied_rows) {
        transposed_.emplace(in_ * out_);
        transpose_in_parallel(data_, in_, out_, in_, transposed_->get());
      }
    }
  }

  /// y (rows, out), plus `block` (columns first..first+depth of f(x)) times the same rows of W^T; the first
  /// block writes y, the last one adds the bias.
  void multiply(int64_t rows, const T* block, int64_t first, int64_t depth, T* y) const {
    const T* const bias = first + depth == in_ ? bias_ : nullptr;
    if constexpr (std::is_same_v<T, float>)
      if (packed_)
        return packed_->multiply(
            {.c = y, .leading = out_, .rows = rows, .accumulate = first > 0, .bias = bias}, block, depth,
            first, depth);
    multiply_by(product_, product(rows, block, first, depth, y));
    if (bias) add_bias(bias, rows, out_, y);
  }

 private:
  Gemm<T> product(int64_t rows, const T* block, int64_t first, int64_t depth, T* y) const {
    const bool copied = transposed_.has_value();
    return {.m = rows,
            .n = out_,
            .k = depth,
            .a = block,
            .lda = depth,
            .a_transposed = false,
            .b = copied ? transposed_->get() + first * out_ : data_ + first,
            .ldb = copied ? out_ : in_,
            .b_transposed = !copied,
            .c = y,
            .ldc = out_,
            .accumulate = first > 0};
  }

  const T *data_, *bias_;
  F32Product product_ = F32Product::eigen;  // of f32
  std::optional<PackedOperand> packed_;
  std::optional<Scratch<T>> transposed_;
  int64_t in_, out_;
};

/// f(x) of many rows in a pass, by all threads, then multiply(their product), until all rows are done.
template <class Multiply>
void forward_in_passes(Activation f, const Tensor& x, const Tensor& weight, const Tensor& out,
                       const Multiply& multiply) {
  const ActivationLinearExtents e(x, weight);
  const UnaryBlock activation = activation_blocks_of(f, f32).forward;
  const int64_t step =
      equal_blocks(std::max<int64_t>(e.rows, 1), std::max<int64_t>(activation_pass_elements / e.in, 16), 16);
  const Scratch<float> activated(std::min(step, e.rows) * e.in);
  for (int64_t first = 0; first < e.rows; first += step) {
    const int64_t rows = std::min(step, e.rows - first);
    const float* const from = x.data<float>() + first * e.in;
    parallel_for(rows * e.in, 4096, [&](int64_t begin, int64_t end) {
      activation(from + begin, activated.get() + begin, end - begin);
    });
    multiply(Gemm<float>{.m = rows,
                         .n = e.out,
                         .k = e.in,
                         .a = activated.get(),
                         .lda = e.in,
                         .a_transposed = false,
                         .b = weight.data<float>(),
                         .ldb = e.in,
                         .b_transposed = true,
                         .c = out.data<float>() + first * e.out,
                         .ldc = e.out,
                         .accumulate = false});
  }
}

/// Of few rows: the product reads the weight once.
void forward_thin(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& out) {
  forward_in_passes(f, x, weight, out, [&](const Gemm<float>& gemm) {
    gemm_thin(gemm, bias.defined() ? bias.data<float>() : nullptr);
  });
}

/// By our kernels, where blocks of rows are few or not shared evenly: all threads share the product.
void forward_packed(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Tensor& out) {
  forward_in_passes(f, x, weight, out, [&](const Gemm<float>& g) {
    multiply_packed_f32(g, bias.defined() ? bias.data<float>() : nullptr,
                        kept_panels_f32(weight, g.b, g.ldb, true, g.k, g.n, x.size(0)));
  });
}

/// The most rows of a block of f(x).
int64_t most_block_rows(int64_t in) {
  return std::max<int64_t>(16, activation_block_elements / std::min(in, max_depth) / 8 * 8);
}

template <class T>
void forward(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out) {
  const ActivationLinearExtents e(x, weight);
  const bool is_packed = std::is_same_v<T, float> && f32_product({e.rows, false}) == F32Product::packed;
  const int64_t threads = num_threads();
  if constexpr (std::is_same_v<T, float>) {
    if (is_thin_product(x, weight.transpose(0, 1), out)) return forward_thin(f, x, weight, bias, out);
    if (is_packed && activation_forward_rows(e.rows, e.in, threads) == 0)
      return forward_packed(f, x, weight, bias, out);
  }
  const ActivationBlocks blocks = activation_blocks_of(f, x.dtype());
  const ForwardWeight<T> w(weight, bias.defined() ? bias.data<T>() : nullptr, e);
  const T* const from = x.data<T>();
  T* const to = out.data<T>();
  // By our kernels one range of the product at a time, so y has the bits of the product of f(x).
  const int64_t step = is_packed ? packed_range(e.in) : std::min(e.in, max_depth);
  const auto rows_from = [&](int64_t r0, int64_t rows, T* scratch) {
    for (int64_t k = 0; k < e.in; k += step) {
      const int64_t depth = std::min(step, e.in - k);
      for (int64_t r = 0; r < rows; ++r)
        blocks.forward(from + (r0 + r) * e.in + k, scratch + r * depth, depth);
      w.multiply(rows, scratch, k, depth, to + r0 * e.out);
    }
  };
  if (is_packed) {
    // An element's bits do not depend on the block, so threads share smaller ones.
    const int64_t height = activation_forward_rows(e.rows, e.in, threads);
    SharedWork(threads).for_each_item((e.rows + height - 1) / height, [&] {
      return [&, scratch = std::make_unique<Scratch<T>>(height * step)](int64_t i) {
        rows_from(i * height, std::min(height, e.rows - i * height), scratch->get());
      };
    });
    return;
  }
  const Cut cut{.rows = blocks_of_at_most(most_block_rows(e.in), e.rows)};
  parallel_for(cut.rows, 1, [&](int64_t begin, int64_t end) {
    const Scratch<T> scratch(((e.rows + cut.rows - 1) / cut.rows) * step);
    for (int64_t i = begin; i < end; ++i) {
      const ProductBlock block = cut.block(e.rows, e.out, i);
      rows_from(block.row, block.rows, scratch.get());
    }
  });
}

}  // namespace

int64_t activation_forward_rows(int64_t rows, int64_t in, int64_t threads) {
  constexpr int64_t unit = packed_tile_rows, items = 6, least = 48;
  if (rows < least) return 0;
  const int64_t share = rounded_up(rows / (items * threads), unit);
  return even_step(rows, std::clamp(share, unit, most_block_rows(in)), unit, threads);
}

void activation_linear(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& out) {
  x.dtype() == f64 ? forward<double>(f, x, weight, bias, out) : forward<float>(f, x, weight, bias, out);
}

void activation_gradient(Activation f, const Tensor& x, const Tensor& dy, const Tensor& y, const Tensor& dx) {
  const GradientBlock kernel = TESSERA_PER_ISA_BF16(gradient_block)(row_of(f).forward, x.dtype());
  const int64_t width = size_of(x.dtype());
  const auto at = [width](const Tensor& tensor, int64_t i) {
    return static_cast<char*>(tensor.raw_data()) + i * width;
  };
  parallel_for(x.numel(), 16384, [&](int64_t begin, int64_t end) {
    kernel(at(x, begin), at(dy, begin), at(y, begin), at(dx, begin), end - begin);
  });
}

}  // namespace tessera::kernels::cpu

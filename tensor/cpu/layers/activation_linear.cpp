// A linear layer of f(x), where x is the widest tensor of a transformer block. f(x) is computed in blocks
// that the matrix product before or after has in the second-level cache, and is not kept. Forward: blocks of
// rows. Backward: ranges of columns of x, so that each thread owns its columns of dx and of dW and computes
// both f(x) and f'(x) there.

#include "tensor/cpu/layers/activation_linear.h"

#include <algorithm>
#include <optional>

#include "tensor/arguments/activation_table.h"
#include "tensor/cpu/gemm/gemm_eigen.h"
#include "tensor/cpu/gemm/gemm_onednn.h"
#include "tensor/cpu/gemm/gemm_packed.h"
#include "tensor/cpu/gemm/gemm_thin.h"
#include "tensor/cpu/gemm/product_blocks.h"
#include "tensor/cpu/gemm/product_choice.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/loops/value_and_gradient.h"
#include "tensor/cpu/matmul.h"
#include "tensor/cpu/transpose.h"

namespace tessera::kernels::cpu {
namespace {

/// Elements of scratch in a block: 384 KiB of f32, which leaves room for the operands of its product.
constexpr int64_t block_elements = 96 * 1024;
/// The most columns of f(x) that one product of the forward sums over.
constexpr int64_t max_depth = 1024;

/// The elementwise loops of an activation: y = f(x), dx = f'(x) dy, and, where it exists, both in one pass.
struct ActivationBlocks {
  UnaryBlock forward;
  BinaryBlock backward;
  GradientBlock both;

  /// f(x) and f'(x) dy of n elements.
  void run(const void* x, const void* dy, void* y, void* dx, int64_t n) const {
    if (both) return both(x, dy, y, dx, n);
    forward(x, y, n);
    backward(x, dy, dx, n);
  }
};

ActivationBlocks blocks_of(Activation f, DType type) {
  const ActivationRow& row = row_of(f);
  const UnaryBlock direct = TESSERA_PER_ISA_BF16(direct_unary_block)(row.forward, type);
  return {direct ? direct : TESSERA_PER_ISA(unary_block)(row.forward, type),
          TESSERA_PER_ISA(binary_blocks)(row.backward, type).arrays,
          TESSERA_PER_ISA_BF16(gradient_block)(row.forward, type)};
}

void multiply(const Gemm<float>& gemm) {
  gemm_f32(gemm);
}
void multiply(const Gemm<double>& gemm) {
  TESSERA_PER_ISA(gemm_eigen_f64)(gemm);
}

/// A block of a product by the kernel that was chosen for the whole one; by the block's own where none was.
template <class T>
void multiply_by(std::optional<F32Product> product, const Gemm<T>& gemm) {
  if constexpr (std::is_same_v<T, float>)
    if (product == F32Product::onednn) return gemm_onednn_f32(gemm);
  multiply(gemm);
}

/// The sizes of a call.
struct Extents {
  int64_t rows, in, out;
  Extents(const Tensor& x, const Tensor& weight) : rows(x.size(0)), in(x.size(1)), out(weight.size(0)) {}
};

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
  ForwardWeight(const Tensor& weight, const T* bias, const Extents& e)
      : data_(static_cast<const T*>(weight.raw_data())), bias_(bias), in_(e.in), out_(e.out) {
    if constexpr (std::is_same_v<T, float>) {
      if (e.rows < 48) return;
      product_ = f32_product({e.rows, false, true});
      if (product_ == F32Product::packed) {
        packed_.emplace(in_, out_);
        packed_->pack_in_parallel(data_, in_, true, in_, out_);
      } else {
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
      if (packed_) return packed_->multiply(rows, block, depth, first, depth, y, out_, first > 0, bias);
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
  std::optional<F32Product> product_;
  std::optional<PackedOperand> packed_;
  std::optional<Scratch<T>> transposed_;
  int64_t in_, out_;
};

/// Of few rows: all of f(x), then a product that reads the weight once.
void forward_thin(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& out) {
  const Extents e(x, weight);
  const UnaryBlock activation = blocks_of(f, f32).forward;
  const Scratch<float> activated(e.rows * e.in);
  parallel_for(e.rows * e.in, 4096, [&](int64_t begin, int64_t end) {
    activation(x.data<float>() + begin, activated.get() + begin, end - begin);
  });
  gemm_thin(Gemm<float>{.m = e.rows,
                        .n = e.out,
                        .k = e.in,
                        .a = activated.get(),
                        .lda = e.in,
                        .a_transposed = false,
                        .b = weight.data<float>(),
                        .ldb = e.in,
                        .b_transposed = true,
                        .c = out.data<float>(),
                        .ldc = e.out,
                        .accumulate = false},
            bias.defined() ? bias.data<float>() : nullptr);
}

template <class T>
void forward(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out) {
  if constexpr (std::is_same_v<T, float>)
    if (is_thin_product(x, weight.transpose(0, 1), out)) return forward_thin(f, x, weight, bias, out);
  const Extents e(x, weight);
  const ActivationBlocks blocks = blocks_of(f, x.dtype());
  const ForwardWeight<T> w(weight, bias.defined() ? bias.data<T>() : nullptr, e);
  const T* const from = x.data<T>();
  T* const to = out.data<T>();
  const int64_t step = std::min(e.in, max_depth);
  const Cut cut{.rows = blocks_of_at_most(std::max<int64_t>(16, block_elements / step), e.rows)};
  parallel_for(cut.rows, 1, [&](int64_t begin, int64_t end) {
    const Scratch<T> scratch(((e.rows + cut.rows - 1) / cut.rows) * step);
    for (int64_t i = begin; i < end; ++i) {
      const ProductBlock block = cut.block(e.rows, e.out, i);
      const int64_t r0 = block.row, rows = block.rows;
      for (int64_t k = 0; k < e.in; k += step) {
        const int64_t depth = std::min(step, e.in - k);
        for (int64_t r = 0; r < rows; ++r)
          blocks.forward(from + (r0 + r) * e.in + k, scratch.get() + r * depth, depth);
        w.multiply(rows, scratch.get(), k, depth, to + r0 * e.out);
      }
    }
  });
}

/// The columns of the weight that a range of the backward multiplies with, packed where our kernels do that.
template <class T>
class RangeWeight {
 public:
  RangeWeight(const T* weight, const Extents& e, int64_t most_columns) : weight_(weight), e_(e) {
    if constexpr (std::is_same_v<T, float>) product_ = f32_product({e.rows, false});
    if (product_ == F32Product::packed) packed_.emplace(e.out, most_columns);
  }

  void take(int64_t first, int64_t columns) {
    first_ = first;
    columns_ = columns;
    if constexpr (std::is_same_v<T, float>)
      if (packed_) packed_->pack(weight_ + first, e_.in, false, e_.out, columns);
  }

  /// dy W: the gradient (rows, columns) at f(x), of dy (rows, out).
  void multiply(int64_t rows, const T* dy, T* out) const {
    if constexpr (std::is_same_v<T, float>)
      if (packed_) return packed_->multiply(rows, dy, e_.out, 0, e_.out, out, columns_, false, nullptr);
    multiply_by(product_, Gemm<T>{.m = rows,
                                  .n = columns_,
                                  .k = e_.out,
                                  .a = dy,
                                  .lda = e_.out,
                                  .a_transposed = false,
                                  .b = weight_ + first_,
                                  .ldb = e_.in,
                                  .b_transposed = false,
                                  .c = out,
                                  .ldc = columns_,
                                  .accumulate = false});
  }

 private:
  const T* weight_;
  Extents e_;
  std::optional<F32Product> product_;
  std::optional<PackedOperand> packed_;
  int64_t first_ = 0, columns_ = 0;
};

/// The backward of one call.
template <class T>
class Backward {
 public:
  Backward(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
           const ops::ActivationLinearGradients& out)
      : e_(x, weight),
        blocks_(blocks_of(f, x.dtype())),
        dy_(dy.data<T>()),
        x_(x.data<T>()),
        weight_(weight.data<T>()),
        dx_(out.x.defined() ? out.x.data<T>() : nullptr),
        dweight_(out.weight.defined() ? out.weight.data<T>() : nullptr),
        accumulate_(out.add_to_weight) {}

  void run() const {
    constexpr int64_t width = 16, max_columns = 256;  // of a vector, of a range
    const int64_t vectors = (e_.in + width - 1) / width;
    const Cut cut{
        .columns = blocks_of_at_most(max_columns / width, vectors), .column_step = width, .round_up = false};
    parallel_for(cut.columns, 1, [&](int64_t begin, int64_t end) {
      const int64_t largest = (vectors + cut.columns - 1) / cut.columns * width;
      const int64_t block = std::min(e_.rows, std::max<int64_t>(16, block_elements * 2 / 3 / largest));
      const Scratch<T> scratch(2 * block * largest);
      RangeWeight<T> weight(weight_, e_, largest);
      for (int64_t i = begin; i < end; ++i) {
        // Threads get whole vectors; the last one may be partial.
        const ProductBlock range = cut.block(e_.rows, vectors * width, i);
        const int64_t columns = std::min(range.columns, e_.in - range.column);
        if (dx_) weight.take(range.column, columns);
        column_range(range.column, columns, block, weight, scratch.get());
      }
    });
  }

 private:
  /// Computes columns first..first+columns of x, `block` rows at a time. `scratch` holds two blocks.
  void column_range(int64_t first, int64_t columns, int64_t block, const RangeWeight<T>& weight,
                    T* scratch) const {
    T *const dactivated = scratch, *const activated = scratch + block * columns;
    for (int64_t r0 = 0; r0 < e_.rows; r0 += block) {
      const int64_t rows = std::min(block, e_.rows - r0);
      if (dx_) weight.multiply(rows, dy_ + r0 * e_.out, dactivated);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = (r0 + r) * e_.in + first, in_block = r * columns;
        if (!dweight_)
          blocks_.backward(x_ + at, dactivated + in_block, dx_ + at, columns);
        else if (!dx_)
          blocks_.forward(x_ + at, activated + in_block, columns);
        else
          blocks_.run(x_ + at, dactivated + in_block, activated + in_block, dx_ + at, columns);
      }
      if (dweight_) multiply(weight_gradient(r0, rows, first, columns, activated));
    }
  }

  /// dy^T f(x), added to the product of the rows before.
  Gemm<T> weight_gradient(int64_t r0, int64_t rows, int64_t first, int64_t columns,
                          const T* activated) const {
    return {.m = e_.out,
            .n = columns,
            .k = rows,
            .a = dy_ + r0 * e_.out,
            .lda = e_.out,
            .a_transposed = true,
            .b = activated,
            .ldb = columns,
            .b_transposed = false,
            .c = dweight_ + first,
            .ldc = e_.in,
            .accumulate = accumulate_ || r0 > 0};
  }

  Extents e_;
  ActivationBlocks blocks_;
  const T *dy_, *x_, *weight_;
  T *dx_, *dweight_;
  bool accumulate_;
};

}  // namespace

void activation_linear(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& out) {
  x.dtype() == f64 ? forward<double>(f, x, weight, bias, out) : forward<float>(f, x, weight, bias, out);
}

void activation_linear_backward(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const ops::ActivationLinearGradients& out) {
  x.dtype() == f64 ? Backward<double>(f, dy, x, weight, out).run()
                   : Backward<float>(f, dy, x, weight, out).run();
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

// A linear layer of f(x). The activation is an elementwise pass over the widest tensor of a transformer
// block: here it runs on pieces that the product before or after it has in the second-level cache, and its
// result is not kept. Forward: blocks of rows. Backward: slices of columns of x, so that each thread owns its
// part of dx and of dW, and both f(x) and f'(x) are made where they are used.

#include "tensor/cpu/activation_linear.h"

#include <algorithm>

#include "tensor/cpu/elementwise_blocks.h"
#include "tensor/cpu/gemm_eigen.h"
#include "tensor/cpu/matmul.h"
#include "tensor/cpu/scratch.h"
#include "tensor/cpu/transpose.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

/// Elements of scratch in a block: 384 KiB of f32, which leaves room for the operands of its product.
constexpr int64_t block_elements = 96 * 1024;
/// The most columns of f(x) that one product of the forward sums over.
constexpr int64_t widest_slice = 1024;

/// The elementwise loops of an activation: y = f(x), dx = f'(x) dy, and both in one pass where there is such
/// a loop.
struct ActivationBlocks {
  UnaryBlock forward;
  BinaryBlock backward;
  GradientBlock both = nullptr;

  /// f(x) and f'(x) dy of n elements.
  void run(const void* x, const void* dy, void* y, void* dx, int64_t n) const {
    if (both) return both(x, dy, y, dx, n);
    forward(x, y, n);
    backward(x, dy, dx, n);
  }
};

ActivationBlocks blocks_of(Activation f, DType type) {
  const auto blocks = [type](UnaryOp forward, BinaryOp backward, GradientBlock both = nullptr) {
    return ActivationBlocks{TESSERA_PER_ISA(unary_block)(forward, type),
                            TESSERA_PER_ISA(binary_blocks)(backward, type).arrays, both};
  };
  switch (f) {
    case Activation::gelu_tanh:
      return blocks(UnaryOp::gelu_tanh, BinaryOp::gelu_tanh_backward);
    case Activation::relu:
      return blocks(UnaryOp::relu, BinaryOp::relu_backward);
    case Activation::silu:
      return blocks(UnaryOp::silu, BinaryOp::silu_backward);
    default:
      return blocks(UnaryOp::gelu, BinaryOp::gelu_backward, TESSERA_PER_ISA(gelu_gradient_block)(type));
  }
}

void multiply(const Gemm<float>& gemm) {
  f32_gemm()(gemm);
}
void multiply(const Gemm<double>& gemm) {
  TESSERA_PER_ISA(gemm_eigen_f64)(gemm);
}

/// The sizes of a call.
struct Extents {
  int64_t rows, in, out;
  Extents(const Tensor& x, const Tensor& weight) : rows(x.size(0)), in(x.size(1)), out(weight.size(0)) {}
};

/// Into how many pieces of at most `largest` an extent is cut so that `num_threads()` threads get equally
/// many.
int64_t pieces_of(int64_t extent, int64_t largest) {
  const int64_t threads = num_threads(), least = (extent + largest - 1) / largest;
  return std::max<int64_t>(1, std::min(extent, (least + threads - 1) / threads * threads));
}

/// The weight as the forward's product reads it: (in, out) row by row where a transposed copy pays.
template <class T>
class ForwardWeight {
 public:
  ForwardWeight(const Tensor& weight, const Extents& e)
      : data_(static_cast<const T*>(weight.raw_data())),
        turned_(std::is_same_v<T, float> && e.rows >= 48 ? e.in * e.out : 0),
        in_(e.in),
        out_(e.out) {
    if constexpr (std::is_same_v<T, float>)
      if (turned_.get()) transpose_in_parallel(data_, in_, out_, in_, turned_.get());
  }

  /// `block` (rows, columns in..in+depth of f(x)) times the rows of W^T that belong to it.
  Gemm<T> product(int64_t rows, const T* block, int64_t first, int64_t depth, T* y) const {
    const bool turned = turned_.get() != nullptr;
    return {.m = rows,
            .n = out_,
            .k = depth,
            .a = block,
            .lda = depth,
            .a_transposed = false,
            .b = turned ? turned_.get() + first * out_ : data_ + first,
            .ldb = turned ? out_ : in_,
            .b_transposed = !turned,
            .c = y,
            .ldc = out_,
            .accumulate = first > 0};
  }

 private:
  const T* data_;
  Scratch<T> turned_;
  int64_t in_, out_;
};

template <class T>
void forward(Activation f, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out) {
  const Extents e(x, weight);
  const ActivationBlocks blocks = blocks_of(f, x.dtype());
  const ForwardWeight<T> w(weight, e);
  const T *from = x.data<T>(), *b = bias.defined() ? bias.data<T>() : nullptr;
  T* to = out.data<T>();
  const int64_t slice = std::min(e.in, widest_slice);
  const int64_t pieces = pieces_of(e.rows, std::max<int64_t>(16, block_elements / slice));
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    const Scratch<T> scratch(((e.rows + pieces - 1) / pieces) * slice);
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t r0 = e.rows * piece / pieces, rows = e.rows * (piece + 1) / pieces - r0;
      for (int64_t k = 0; k < e.in; k += slice) {
        const int64_t depth = std::min(slice, e.in - k);
        for (int64_t r = 0; r < rows; ++r)
          blocks.forward(from + (r0 + r) * e.in + k, scratch.get() + r * depth, depth);
        multiply(w.product(rows, scratch.get(), k, depth, to + r0 * e.out));
      }
      for (int64_t r = r0; b && r < r0 + rows; ++r)
        for (int64_t j = 0; j < e.out; ++j) to[r * e.out + j] += b[j];
    }
  });
}

/// One call's backward; `slice` computes some columns of x.
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
    constexpr int64_t widest = 256;
    const int64_t vectors = (e_.in + 15) / 16, slices = pieces_of(vectors, widest / 16);
    parallel_for(slices, 1, [&](int64_t begin, int64_t end) {
      const int64_t most = (vectors + slices - 1) / slices * 16;
      const int64_t block = std::min(e_.rows, std::max<int64_t>(16, block_elements * 2 / 3 / most));
      const Scratch<T> scratch(2 * block * most);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = vectors * i / slices * 16;
        slice(first, std::min(e_.in, vectors * (i + 1) / slices * 16) - first, block, scratch.get());
      }
    });
  }

 private:
  /// Columns first..first+columns, `block` rows at a time. `scratch` holds two blocks.
  void slice(int64_t first, int64_t columns, int64_t block, T* scratch) const {
    T *const arriving = scratch, *const activated = scratch + block * columns;
    for (int64_t r0 = 0; r0 < e_.rows; r0 += block) {
      const int64_t rows = std::min(block, e_.rows - r0);
      if (dx_) multiply(arriving_gradient(r0, rows, first, columns, arriving));
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = (r0 + r) * e_.in + first, here = r * columns;
        if (!dweight_)
          blocks_.backward(x_ + at, arriving + here, dx_ + at, columns);
        else if (!dx_)
          blocks_.forward(x_ + at, activated + here, columns);
        else
          blocks_.run(x_ + at, arriving + here, activated + here, dx_ + at, columns);
      }
      if (dweight_) multiply(weight_gradient(r0, rows, first, columns, activated));
    }
  }

  /// dy W: the gradient that arrives at f(x).
  Gemm<T> arriving_gradient(int64_t r0, int64_t rows, int64_t first, int64_t columns, T* out) const {
    return {.m = rows,
            .n = columns,
            .k = e_.out,
            .a = dy_ + r0 * e_.out,
            .lda = e_.out,
            .a_transposed = false,
            .b = weight_ + first,
            .ldb = e_.in,
            .b_transposed = false,
            .c = out,
            .ldc = columns,
            .accumulate = false};
  }

  /// dy^T f(x), added to that of the rows before.
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

}  // namespace tessera::kernels::cpu

// The backward of a linear layer of f(x), in ranges of columns of x: a thread that has a range computes both
// f(x) and f'(x) of a block of it, while the block is in its second-level cache, and its columns of dx and
// dW.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "tensor/cpu/gemm/packed/gemm_packed.h"
#include "tensor/cpu/gemm/packed/packed_ranges.h"
#include "tensor/cpu/gemm/product_squares.h"
#include "tensor/cpu/gemm/sharing/product_blocks.h"
#include "tensor/cpu/gemm/sharing/shared_work.h"
#include "tensor/cpu/layers/activation_linear.h"
#include "tensor/cpu/layers/activation_products.h"
#include "tensor/cpu/loops/scratch.h"

namespace tessera::kernels::cpu {
namespace {

/// The backward of one call by other kernels: f64, oneDNN, Eigen.
template <class T>
class Backward {
 public:
  Backward(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
           const ops::ActivationLinearGradients& out)
      : e_(x, weight),
        blocks_(activation_blocks_of(f, x.dtype())),
        dy_(dy.data<T>()),
        x_(x.data<T>()),
        weight_(weight.data<T>()),
        dx_(out.x.defined() ? out.x.data<T>() : nullptr),
        dweight_(out.weight.defined() ? out.weight.data<T>() : nullptr),
        accumulate_(out.add_to_weight) {
    if constexpr (std::is_same_v<T, float>) {
      input_product_ = f32_product({e_.rows, false});
      weight_product_ = f32_product({e_.out, true});
    }
  }

  void run() const {
    constexpr int64_t width = 16, max_columns = 256;  // of a vector, of a range
    const int64_t vectors = (e_.in + width - 1) / width;
    const Cut cut{
        .columns = blocks_of_at_most(max_columns / width, vectors), .column_step = width, .round_up = false};
    parallel_for(cut.columns, 1, [&](int64_t begin, int64_t end) {
      const int64_t largest = (vectors + cut.columns - 1) / cut.columns * width;
      const int64_t block =
          std::min(e_.rows, std::max<int64_t>(16, activation_block_elements * 2 / 3 / largest));
      const Scratch<T> scratch(2 * block * largest);
      for (int64_t i = begin; i < end; ++i) {
        // Threads get whole vectors; the last one may be partial.
        const ProductBlock range = cut.block(e_.rows, vectors * width, i);
        const int64_t columns = std::min(range.columns, e_.in - range.column);
        column_range(range.column, columns, block, scratch.get());
      }
    });
  }

 private:
  /// Computes columns first..first+columns of x, `block` rows at a time. `scratch` holds two blocks.
  void column_range(int64_t first, int64_t columns, int64_t block, T* scratch) const {
    T *const dactivated = scratch, *const activated = scratch + block * columns;
    for (int64_t r0 = 0; r0 < e_.rows; r0 += block) {
      const int64_t rows = std::min(block, e_.rows - r0);
      if (dx_) multiply_by(input_product_, input_gradient(r0, rows, first, columns, dactivated));
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = (r0 + r) * e_.in + first, in_block = r * columns;
        if (!dweight_)
          blocks_.backward(x_ + at, dactivated + in_block, dx_ + at, columns);
        else if (!dx_)
          blocks_.forward(x_ + at, activated + in_block, columns);
        else
          blocks_.run(x_ + at, dactivated + in_block, activated + in_block, dx_ + at, columns);
      }
      if (dweight_) multiply_by(weight_product_, weight_gradient(r0, rows, first, columns, activated));
    }
  }

  /// dy W, the gradient at f(x).
  Gemm<T> input_gradient(int64_t r0, int64_t rows, int64_t first, int64_t columns, T* dactivated) const {
    return {.m = rows,
            .n = columns,
            .k = e_.out,
            .a = dy_ + r0 * e_.out,
            .lda = e_.out,
            .a_transposed = false,
            .b = weight_ + first,
            .ldb = e_.in,
            .b_transposed = false,
            .c = dactivated,
            .ldc = columns,
            .accumulate = false};
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

  ActivationLinearExtents e_;
  ActivationBlocks blocks_;
  const T *dy_, *x_, *weight_;
  T *dx_, *dweight_;
  bool accumulate_;
  F32Product input_product_ = F32Product::eigen, weight_product_ = F32Product::eigen;  // of f32
};

/// The backward of one call by our kernels. A dy of long rows is packed by all threads, once for all ranges,
/// and threads share the ranges as they get to them. x comes to the cache while the product before its
/// activation is computed. dW has the bits of the product dy^T f(x).
class PackedBackward {
 public:
  PackedBackward(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
                 const ops::ActivationLinearGradients& out)
      : e_(x, weight),
        blocks_(activation_blocks_of(f, f32)),
        dy_(dy.data<float>()),
        x_(x.data<float>()),
        weight_(weight.data<float>()),
        kept_(out.x.defined() ? kept_panels_f32(weight, weight_, e_.in, false, e_.out, e_.in, e_.rows)
                              : nullptr),
        dx_(out.x.defined() ? out.x.data<float>() : nullptr),
        dweight_(out.weight.defined() ? out.weight.data<float>() : nullptr),
        accumulate_(out.add_to_weight),
        width_(activation_backward_columns(e_.in, num_threads())),
        group_(packs_dy() ? PackedStrips::group_of(e_.rows, e_.out) : e_.rows),
        packed_dy_(packs_dy() ? e_.out : 0, group_) {}

  static bool is_chosen(const Tensor& x, const Tensor& weight) {
    return x.dtype() == f32 && f32_activation_gradient_is_ours(x.size(0), weight.size(0));
  }
  /// Whether threads share its ranges of columns evenly, and a thread's columns of the weight are not too
  /// many bytes.
  static bool has_ranges(const Tensor& x, const Tensor& weight) {
    return weight.size(0) <= most_out && activation_backward_columns(x.size(1), num_threads()) > 0;
  }

  void run() const { run({}); }
  /// The same, and returns the sum of the squares of dW.
  double run_with_squares() const {
    return packed_squares(e_.out, e_.in, [&](const F32Squares& squares) { run(squares); });
  }

 private:
  /// Rows of f(x) per block.
  static constexpr int64_t block_rows = 96;
  /// Rows of a weight, of which a thread packs up to 256 columns: 8 MiB.
  static constexpr int64_t most_out = 8192;
  /// Rows of dy up to this length are read in place, column by column: a page holds four of them.
  static constexpr int64_t most_out_in_place = 256;

  void run(const F32Squares& squares) const {
    const int64_t ranges = (e_.in + width_ - 1) / width_;
    for (int64_t first = 0; first < e_.rows; first += group_) {
      const int64_t length = std::min(group_, e_.rows - first);
      if (packs_dy()) pack_dy(first, length);
      SharedWork(num_threads()).for_each_item(ranges, [&] {
        return [&, memory = std::make_unique<Memory>(*this)](int64_t i) {
          range(i * width_, first, length, squares, *memory);
        };
      });
    }
  }

  bool packs_dy() const { return dweight_ && e_.out > most_out_in_place; }
  void pack_dy(int64_t first, int64_t length) const {
    constexpr int64_t step = 8;  // rows that are packed side by side
    parallel_for((length + step - 1) / step, 1 + (1 << 10) / e_.out, [&](int64_t begin, int64_t end) {
      const int64_t p = begin * step, count = std::min(end * step, length) - p;
      packed_dy_.pack(dy_ + (first + p) * e_.out, e_.out, p, count);
    });
  }

  /// A thread's working memory.
  struct Memory {
    explicit Memory(const PackedBackward& call)
        : weight(call.e_.out, call.kept_ || !call.dx_ ? 0 : call.width_),
          dactivated(block_rows * call.width_),
          activated(packed_range(call.e_.rows) * call.width_ + packed_columns) {}
    PackedOperand weight;                  ///< columns of a range
    Scratch<float> dactivated, activated;  ///< of a block of rows; of a range of rows
  };

  /// Columns first_column .. of x, over rows first .. first + length.
  void range(int64_t first_column, int64_t first, int64_t length, const F32Squares& squares,
             Memory& memory) const {
    const int64_t columns = std::min(width_, e_.in - first_column), step = packed_range(e_.rows);
    if (kept_)
      memory.weight.take_panels(kept_, e_.out, first_column, columns);
    else if (dx_)
      memory.weight.pack(weight_ + first_column, e_.in, false, e_.out, columns);
    for (int64_t p = 0; p < length; p += step) {
      const int64_t depth = std::min(step, length - p);
      for (int64_t r = 0; r < depth; r += block_rows) {
        const int64_t rows = std::min(block_rows, depth - r);
        activate(first + p + r, rows, first_column, columns, memory.activated.get() + r * columns, memory);
      }
      if (!dweight_) continue;
      PackedProduct product{
          .m = e_.out,
          .n = columns,
          .k = depth,
          .panels = memory.activated.get(),
          .panel = packed_columns,
          .panel_row = columns,
          .c = dweight_ + first_column,
          .ldc = e_.in,
          .accumulate = accumulate_ || first + p > 0,
          .bias = nullptr,
          .squares = first + p + step >= e_.rows ? squares.at(0, first_column) : F32Squares()};
      if (packs_dy()) {
        packed_dy_.multiply(0, p, product);
        continue;
      }
      product.a = dy_ + (first + p) * e_.out;
      product.strip = TESSERA_PER_ISA(packed_rows)();
      product.row = 1;
      product.step = e_.out;
      TESSERA_PER_ISA(packed_product_f32)(product);
    }
  }

  /// dx of rows r0 .. r0 + rows, and f(x), those of them that are wanted.
  void activate(int64_t r0, int64_t rows, int64_t first_column, int64_t columns, float* activated_rows,
                Memory& memory) const {
    if (dx_)
      memory.weight.multiply({.c = memory.dactivated.get(),
                              .leading = columns,
                              .rows = rows,
                              .beside = x_ + r0 * e_.in + first_column,
                              .beside_leading = e_.in},
                             dy_ + r0 * e_.out, e_.out, 0, e_.out);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = (r0 + r) * e_.in + first_column;
      float* const dactivated = memory.dactivated.get() + r * columns;
      float* const activated = activated_rows + r * columns;
      if (!dweight_)
        blocks_.backward(x_ + at, dactivated, dx_ + at, columns);
      else if (!dx_)
        blocks_.forward(x_ + at, activated, columns);
      else
        blocks_.run(x_ + at, dactivated, activated, dx_ + at, columns);
    }
  }

  ActivationLinearExtents e_;
  ActivationBlocks blocks_;
  const float *dy_, *x_, *weight_, *kept_;
  float *dx_, *dweight_;
  bool accumulate_;
  int64_t width_, group_;
  PackedStrips packed_dy_;
};

/// The same by products and a pass over f(x) and f'(x), one after the other, for some rows at a time: whole
/// ranges of the weight's gradient, so that sums are added in the order of one product.
class BackwardInPasses {
 public:
  BackwardInPasses(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
                   const ops::ActivationLinearGradients& out)
      : e_(x, weight),
        weight_(weight),
        blocks_(activation_blocks_of(f, f32)),
        dy_(dy.data<float>()),
        x_(x.data<float>()),
        dx_(out.x.defined() ? out.x.data<float>() : nullptr),
        dweight_(out.weight.defined() ? out.weight.data<float>() : nullptr),
        accumulate_(out.add_to_weight),
        range_(packed_range(std::max<int64_t>(e_.rows, 1))),
        step_(std::max(activation_pass_elements / e_.in / range_, int64_t{1}) * range_),
        // f(x), and the gradient at f(x) where that of x overwrites x. Where one pass gives both, f(x) takes
        // the place of the gradient.
        gradients_(dx_ == x_ ? most_rows() * e_.in : 0),
        activated_(dweight_ && !(gradients_.get() && blocks_.both) ? most_rows() * e_.in : 0) {}

  void run() {
    const bool wanted = std::exchange(product_squares.wanted, false);
    // The last range may be shorter: a product of it and some before it would have others.
    const int64_t whole = e_.rows <= step_ ? 0 : (e_.rows - 1) / range_ * range_;
    int64_t first = 0;
    do {
      const int64_t end = first < whole ? std::min(first + step_, whole) : e_.rows;
      gradients_of(first, end - first);
      if (dweight_) {
        product_squares.wanted = wanted && end == e_.rows;
        weight_gradient(first, end - first);
      }
      first = end;
    } while (first < e_.rows);
  }

 private:
  int64_t most_rows() const { return std::min(step_, e_.rows); }
  float* activated() const { return activated_.get() ? activated_.get() : gradients_.get(); }

  /// dx of some rows, and f(x).
  void gradients_of(int64_t first, int64_t rows) const {
    const float* const from = x_ + first * e_.in;
    float *const to = dx_ ? dx_ + first * e_.in : nullptr, *const product =
                                                               gradients_.get() ? gradients_.get() : to;
    if (to)
      multiply_packed_f32(
          {.m = rows,
           .n = e_.in,
           .k = e_.out,
           .a = dy_ + first * e_.out,
           .lda = e_.out,
           .a_transposed = false,
           .b = weight_.data<float>(),
           .ldb = e_.in,
           .b_transposed = false,
           .c = product,
           .ldc = e_.in,
           .accumulate = false},
          nullptr, kept_panels_f32(weight_, weight_.data<float>(), e_.in, false, e_.out, e_.in, e_.rows));
    parallel_for(rows * e_.in, 4096, [&](int64_t begin, int64_t end) {
      const int64_t n = end - begin;
      if (!dweight_)
        blocks_.backward(from + begin, product + begin, to + begin, n);
      else if (!to)
        blocks_.forward(from + begin, activated() + begin, n);
      else
        blocks_.run(from + begin, product + begin, activated() + begin, to + begin, n);
    });
  }

  void weight_gradient(int64_t first, int64_t rows) const {
    multiply_packed_f32({.m = e_.out,
                         .n = e_.in,
                         .k = rows,
                         .a = dy_ + first * e_.out,
                         .lda = e_.out,
                         .a_transposed = true,
                         .b = activated(),
                         .ldb = e_.in,
                         .b_transposed = false,
                         .c = dweight_,
                         .ldc = e_.in,
                         .accumulate = accumulate_ || first > 0},
                        nullptr);
  }

  ActivationLinearExtents e_;
  const Tensor& weight_;
  ActivationBlocks blocks_;
  const float *dy_, *x_;
  float *dx_, *dweight_;
  bool accumulate_;
  int64_t range_, step_;
  Scratch<float> gradients_, activated_;
};

}  // namespace

int64_t activation_backward_columns(int64_t in, int64_t threads) {
  // f(x) of 512 rows of a range takes up to 512 KiB of the second-level cache. Narrower ranges than two
  // panels leave the kernel with more loads than multiply-adds.
  constexpr int64_t unit = 2 * packed_columns, most = 256, items = 4;
  return even_step(in, std::clamp(in / (items * threads), unit, most), unit, threads);
}

void activation_linear_backward(Activation f, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const ops::ActivationLinearGradients& out) {
  if (PackedBackward::is_chosen(x, weight)) {
    if (!PackedBackward::has_ranges(x, weight)) return BackwardInPasses(f, dy, x, weight, out).run();
    const PackedBackward backward(f, dy, x, weight, out);
    if (!product_squares.wanted || !out.weight.defined()) return backward.run();
    product_squares.sum = backward.run_with_squares();
    return;
  }
  x.dtype() == f64 ? Backward<double>(f, dy, x, weight, out).run()
                   : Backward<float>(f, dy, x, weight, out).run();
}

}  // namespace tessera::kernels::cpu

// Layer norm and RMS norm over rows, after a residual addition where there is one. Rows are taken in blocks
// that stay in the first-level cache for all steps (random words, widening, sums). The gradients of weight
// and bias are added up within fixed groups of rows, one buffer per group, and then over the groups in order:
// at most 64 groups, for any number of threads.
#include "tensor/cpu/layers/normalization.h"

#include <algorithm>

#include "tensor/cpu/layers/dropout.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/normalization_rows.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 8192;
constexpr int64_t block_elements = 2048;

template <class A>
const NormalizationRows<A>& normalization_rows() {
  if constexpr (std::is_same_v<A, float>)
    return TESSERA_PER_ISA(normalization_rows_f32)();
  else
    return TESSERA_PER_ISA(normalization_rows_f64)();
}

/// Element i of a contiguous tensor of T; null for an undefined tensor.
template <class T>
T* at(const Tensor& tensor, int64_t i = 0) {
  return tensor.defined() ? static_cast<T*>(tensor.raw_data()) + i : nullptr;
}

/// A contiguous tensor in the type that is computed in: the tensor itself, or a widened copy.
template <class T>
class Operand {
 public:
  using A = accumulator_of<T>;
  explicit Operand(const Tensor& tensor)
      : copy_(tensor.defined() && !std::is_same_v<T, A> ? tensor.numel() : 0) {
    if (copy_.get())
      widen_contiguous(at<T>(tensor), tensor.numel(), copy_.get());
    else if constexpr (std::is_same_v<T, A>)
      data_ = at<A>(tensor);
  }
  const A* get() const { return copy_.get() ? copy_.get() : data_; }

 private:
  Scratch<A> copy_;
  const A* data_ = nullptr;
};

template <class T>
class Forward {
 public:
  using A = accumulator_of<T>;
  static constexpr bool in_place = std::is_same_v<T, A>;

  Forward(const NormalizationCall& call, const ops::Normalized& out)
      : call_(call),
        out_(out),
        n_(call.x.numel() / out.rstd.numel()),
        block_(std::max<int64_t>(1, block_elements / n_)),
        weight_(call.weight),
        bias_(call.bias) {}

  void run() const {
    parallel_for(out_.rstd.numel(), 1 + grain_elements / n_, [&](int64_t begin, int64_t end) {
      const Scratch<A> scratch(in_place ? 0 : 3 * block_ * n_);
      for (int64_t r = begin; r < end; r += block_) rows(r, std::min(block_, end - r), scratch.get());
    });
  }

 private:
  void rows(int64_t first, int64_t count, A* scratch) const {
    const int64_t from = first * n_, n = count * n_;
    const bool adds = call_.delta.defined();
    const A *x, *delta = nullptr;
    A *sum, *y;
    if constexpr (in_place) {
      x = at<A>(call_.x, from), delta = at<A>(call_.delta, from);
      sum = at<A>(out_.sum, from), y = at<A>(out_.y, from);
      if (call_.mask) {
        drop_elements(*call_.mask, delta, from, n, sum);
        delta = sum;
      }
    } else {
      sum = scratch + block_ * n_, y = sum + block_ * n_;
      widen_contiguous(at<T>(call_.x, from), n, scratch);
      if (adds) add_rounded(from, n, scratch, sum);
      x = adds ? sum : scratch;
    }
    kernel_(x, delta, count, n_, weight_.get(), bias_.get(), static_cast<A>(call_.eps), sum, y,
            at<A>(out_.mean, first), at<A>(out_.rstd, first));
    if constexpr (!in_place) narrow_contiguous(y, n, at<T>(out_.y, from));
  }

  /// For half types: sum = x + dropout(delta) as stored, so that backward normalizes the same values.
  void add_rounded(int64_t from, int64_t n, const A* x, A* sum) const {
    widen_contiguous(at<T>(call_.delta, from), n, sum);
    if (call_.mask) drop_elements(*call_.mask, sum, from, n, sum);
    TESSERA_PER_ISA(binary_blocks)(BinaryOp::add, dtype_of<A>).arrays(x, sum, sum, n);
    narrow_contiguous(sum, n, at<T>(out_.sum, from));
    widen_contiguous(at<T>(out_.sum, from), n, sum);
  }

  decltype(NormalizationRows<A>::forward) kernel_ = normalization_rows<A>().forward;
  const NormalizationCall& call_;
  const ops::Normalized& out_;
  int64_t n_, block_;
  Operand<T> weight_, bias_;
};

/// The sum over `groups` rows of n values, in order, in f64.
template <class A>
void add_groups(const A* partial, int64_t stride, int64_t groups, int64_t n, A* out) {
  parallel_for(n, 1 + grain_elements / groups, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t g = 0; g < groups; ++g) sum += static_cast<double>(partial[g * stride + i]);
      out[i] = static_cast<A>(sum);
    }
  });
}

template <class T>
class Backward {
 public:
  using A = accumulator_of<T>;
  static constexpr bool in_place = std::is_same_v<T, A>;

  Backward(const NormalizationBackwardCall& call, const ops::NormalizationGradients& out)
      : call_(call),
        out_(out),
        rows_(call.rstd.numel()),
        n_(call.x.numel() / rows_),
        block_(std::max<int64_t>(1, block_elements / n_)),
        weight_(call.weight) {}

  void run() const {
    const int64_t per_group = std::max<int64_t>(32, (rows_ + 63) / 64);
    const int64_t groups = (rows_ + per_group - 1) / per_group;
    A *const dweight = at<A>(out_.weight), *const dbias = at<A>(out_.bias);
    // Each group's dweight, then its dbias.
    const Scratch<A> partials(dweight || dbias ? groups * 2 * n_ : 0);
    parallel_for(groups, 1 + grain_elements / (per_group * n_), [&](int64_t begin, int64_t end) {
      const Scratch<A> scratch(in_place ? 0 : 4 * block_ * n_);
      for (int64_t g = begin; g < end; ++g) {
        A* partial = partials.get() ? partials.get() + g * 2 * n_ : nullptr;
        if (partial) std::fill_n(partial, 2 * n_, A(0));
        const int64_t last = std::min(rows_, (g + 1) * per_group);
        for (int64_t r = g * per_group; r < last; r += block_)
          rows(r, std::min(block_, last - r), dweight ? partial : nullptr, dbias ? partial + n_ : nullptr,
               scratch.get());
      }
    });
    if (dweight) add_groups(partials.get(), 2 * n_, groups, n_, dweight);
    if (dbias) add_groups(partials.get() + n_, 2 * n_, groups, n_, dbias);
  }

 private:
  void rows(int64_t first, int64_t count, A* dweight, A* dbias, A* scratch) const {
    const int64_t from = first * n_, n = count * n_;
    const A *x, *dy, *dsum = nullptr;
    A *dx, *ddelta;
    if constexpr (in_place) {
      x = at<A>(call_.x, from), dy = at<A>(call_.dy, from), dsum = at<A>(call_.dsum, from);
      dx = at<A>(out_.x, from), ddelta = at<A>(out_.delta, from);
    } else {
      A *wide_x = scratch, *wide_dy = wide_x + block_ * n_, *wide_dsum = wide_dy + block_ * n_;
      widen_contiguous(at<T>(call_.x, from), n, wide_x);
      widen_contiguous(at<T>(call_.dy, from), n, wide_dy);
      if (call_.dsum.defined()) widen_contiguous(at<T>(call_.dsum, from), n, wide_dsum);
      x = wide_x, dy = wide_dy, dsum = call_.dsum.defined() ? wide_dsum : nullptr;
      A* wide_dx = wide_dsum + block_ * n_;
      dx = out_.x.defined() ? wide_dx : nullptr, ddelta = out_.delta.defined() ? wide_dx : nullptr;
    }
    A* gradient = dx ? dx : ddelta;
    kernel_(x, dy, dsum, count, n_, weight_.get(), at<A>(call_.mean, first), at<A>(call_.rstd, first),
            gradient, dweight, dbias);
    if constexpr (!in_place)
      if (dx) narrow_contiguous(dx, n, at<T>(out_.x, from));
    if (ddelta) drop_elements(*call_.mask, gradient, from, n, ddelta);
    if constexpr (!in_place)
      if (ddelta) narrow_contiguous(ddelta, n, at<T>(out_.delta, from));
  }

  decltype(NormalizationRows<A>::backward) kernel_ = normalization_rows<A>().backward;
  const NormalizationBackwardCall& call_;
  const ops::NormalizationGradients& out_;
  int64_t rows_, n_, block_;
  Operand<T> weight_;
};

template <class T>
void normalize_again(const Tensor& x, const Operand<T>& weight, const Operand<T>& bias, const Tensor& mean,
                     const Tensor& rstd, const Tensor& y) {
  using A = accumulator_of<T>;
  const auto kernel = normalization_rows<A>().scale;
  const int64_t n = x.numel() / rstd.numel(), block = std::max<int64_t>(1, block_elements / n);
  parallel_for(rstd.numel(), 1 + grain_elements / n, [&](int64_t begin, int64_t end) {
    const Scratch<A> scratch(std::is_same_v<T, A> ? 0 : 2 * block * n);
    for (int64_t r = begin; r < end; r += block) {
      const int64_t count = std::min(block, end - r), from = r * n;
      const auto run = [&](const A* source, A* target) {
        kernel(source, count, n, weight.get(), bias.get(), at<A>(mean, r), at<A>(rstd, r), target);
      };
      if constexpr (std::is_same_v<T, A>) {
        run(at<A>(x, from), at<A>(y, from));
      } else {
        A* wide = scratch.get();
        widen_contiguous(at<T>(x, from), count * n, wide);
        run(wide, wide + block * n);
        narrow_contiguous(wide + block * n, count * n, at<T>(y, from));
      }
    }
  });
}

}  // namespace

void normalization(const NormalizationCall& call, const ops::Normalized& out) {
  if (call.x.numel() == 0) {
    out.rstd.zero();
    if (out.mean.defined()) out.mean.zero();
    return;
  }
  with_floating(call.x.dtype(), [&]<class T>(TypeTag<T>) { Forward<T>(call, out).run(); });
}

void recompute_normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                          const Tensor& rstd, const Tensor& y) {
  if (x.numel() == 0) return;
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    normalize_again<T>(x, Operand<T>(weight), Operand<T>(bias), mean, rstd, y);
  });
}

void normalization_backward(const NormalizationBackwardCall& call, const ops::NormalizationGradients& out) {
  if (call.x.numel() == 0) {
    if (out.weight.defined()) out.weight.zero();
    if (out.bias.defined()) out.bias.zero();
    return;
  }
  with_floating(call.x.dtype(), [&]<class T>(TypeTag<T>) { Backward<T>(call, out).run(); });
}

}  // namespace tessera::kernels::cpu

// Layer norm and RMS norm over rows, after a residual addition where there is one. Where elements are
// dropped, rows are taken in blocks that stay in the first-level cache for both steps. The gradients of
// weight and bias are added up within fixed groups of rows, one buffer per group, and then over the groups in
// order: at most 64 groups, for any number of threads.
#include "tensor/cpu/layers/normalization.h"

#include <algorithm>

#include "tensor/cpu/layers/dropout.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/normalization_rows.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 8192;
constexpr int64_t block_elements = 2048;

template <class T>
const NormalizationRows<T>& normalization_rows() {
  if constexpr (std::is_same_v<T, float>)
    return TESSERA_PER_ISA_BF16(normalization_rows_f32)();
  else if constexpr (std::is_same_v<T, double>)
    return TESSERA_PER_ISA_BF16(normalization_rows_f64)();
  else if constexpr (std::is_same_v<T, bfloat16>)
    return TESSERA_PER_ISA_BF16(normalization_rows_bf16)();
  else
    return TESSERA_PER_ISA_BF16(normalization_rows_f16)();
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

  Forward(const NormalizationCall& call, const ops::Normalized& out)
      : call_(call),
        out_(out),
        n_(call.x.numel() / out.rstd.numel()),
        block_(std::max<int64_t>(1, block_elements / n_)),
        weight_(call.weight),
        bias_(call.bias) {}

  void run() const {
    parallel_for(out_.rstd.numel(), 1 + grain_elements / n_, [&](int64_t begin, int64_t end) {
      if (!call_.mask) return rows(kernels_.forward, at<T>(call_.delta, begin * n_), begin, end - begin);
      const Scratch<A> dropped(block_ * n_);
      for (int64_t r = begin; r < end; r += block_) {
        const int64_t count = std::min(block_, end - r), from = r * n_;
        drop_elements(*call_.mask, at<T>(call_.delta, from), from, count * n_, dropped.get());
        rows(kernels_.forward_wide, dropped.get(), r, count);
      }
    });
  }

 private:
  template <class Kernel, class D>
  void rows(Kernel kernel, const D* delta, int64_t first, int64_t count) const {
    const int64_t from = first * n_;
    kernel(at<T>(call_.x, from), delta, count, n_, weight_.get(), bias_.get(), static_cast<A>(call_.eps),
           at<T>(out_.sum, from), at<T>(out_.y, from), at<A>(out_.mean, first), at<A>(out_.rstd, first));
  }

  const NormalizationRows<T>& kernels_ = normalization_rows<T>();
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
      const Scratch<A> scratch(out_.delta.defined() ? block_ * n_ : 0);
      for (int64_t g = begin; g < end; ++g) {
        A* partial = partials.get() ? partials.get() + g * 2 * n_ : nullptr;
        if (partial) std::fill_n(partial, 2 * n_, A(0));
        const int64_t first = g * per_group, last = std::min(rows_, first + per_group);
        group(first, last, dweight ? partial : nullptr, dbias ? partial + n_ : nullptr, scratch.get());
      }
    });
    if (dweight) add_groups(partials.get(), 2 * n_, groups, n_, dweight);
    if (dbias) add_groups(partials.get() + n_, 2 * n_, groups, n_, dbias);
  }

 private:
  void group(int64_t first, int64_t last, A* dweight, A* dbias, A* scratch) const {
    const int64_t from = first * n_;
    if (!out_.delta.defined())
      return kernels_.backward(at<T>(call_.x, from), at<T>(call_.dy, from), at<T>(call_.dsum, from),
                               last - first, n_, weight_.get(), at<A>(call_.mean, first),
                               at<A>(call_.rstd, first), at<T>(out_.x, from), dweight, dbias);
    for (int64_t r = first; r < last; r += block_)
      masked_rows(r, std::min(block_, last - r), dweight, dbias, scratch);
  }

  void masked_rows(int64_t first, int64_t count, A* dweight, A* dbias, A* scratch) const {
    const int64_t from = first * n_;
    kernels_.backward_wide(at<T>(call_.x, from), at<T>(call_.dy, from), at<T>(call_.dsum, from), count, n_,
                           weight_.get(), at<A>(call_.mean, first), at<A>(call_.rstd, first), scratch,
                           at<T>(out_.x, from), dweight, dbias);
    drop_elements(*call_.mask, scratch, from, count * n_, at<T>(out_.delta, from));
  }

  const NormalizationRows<T>& kernels_ = normalization_rows<T>();
  const NormalizationBackwardCall& call_;
  const ops::NormalizationGradients& out_;
  int64_t rows_, n_, block_;
  Operand<T> weight_;
};

template <class T>
void normalize_again(const Tensor& x, const Operand<T>& weight, const Operand<T>& bias, const Tensor& mean,
                     const Tensor& rstd, const Tensor& y) {
  using A = accumulator_of<T>;
  const auto kernel = normalization_rows<T>().scale;
  const int64_t n = x.numel() / rstd.numel();
  parallel_for(rstd.numel(), 1 + grain_elements / n, [&](int64_t begin, int64_t end) {
    kernel(at<T>(x, begin * n), end - begin, n, weight.get(), bias.get(), at<A>(mean, begin),
           at<A>(rstd, begin), at<T>(y, begin * n));
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

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
#include "tensor/cpu/loops/streamed_result.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 8192;
constexpr int64_t block_elements = 2048;

// Bytes of a row that a block in the first-level cache can hold.
constexpr int64_t longest_streamed_row = 32 << 10;

/// Rows of a block: of those that kernels take together, or one where rows are long.
int64_t block_rows(int64_t n) {
  constexpr int64_t together = 4;
  return n > block_elements ? 1 : std::max(together, block_elements / n / together * together);
}

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

/// Whether a result in rows of n values of T is larger than the caches, and is none of the arguments: their
/// lines are read anyway.
template <class T>
bool streams(const Tensor& out, int64_t n, std::initializer_list<Tensor> arguments) {
  return out.defined() && n * static_cast<int64_t>(sizeof(T)) <= longest_streamed_row &&
         streams_past_caches(out.numel() * static_cast<int64_t>(sizeof(T))) &&
         std::none_of(arguments.begin(), arguments.end(), [&](const Tensor& argument) {
           return argument.defined() && argument.raw_data() == out.raw_data();
         });
}

/// A thread's writer of rows of n values of T, of which at most `rows` are in its block.
template <class T>
class RowWriter {
 public:
  RowWriter(bool streams, int64_t rows, int64_t n)
      : n_(n), buffer_(streams ? rows * n : 0), result_(buffer_.get()) {}
  T* block(T* to) const { return result_.block(to); }
  void write(T* to, int64_t rows) const { result_.write(to, rows * n_ * static_cast<int64_t>(sizeof(T))); }

 private:
  int64_t n_;
  Scratch<T> buffer_;
  StreamedResult result_;
};

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
        block_(block_rows(n_)),
        sum_streams_(streams<T>(out.sum, n_, {call.x, call.delta})),
        y_streams_(streams<T>(out.y, n_, {call.x, call.delta})),
        weight_(call.weight),
        bias_(call.bias) {}

  void run() const {
    parallel_for(out_.rstd.numel(), 1 + grain_elements / n_, [&](int64_t begin, int64_t end) {
      const RowWriter<T> sum(sum_streams_, block_, n_), y(y_streams_, block_, n_);
      const Scratch<A> dropped(call_.mask ? block_ * n_ : 0);
      const int64_t step = call_.mask || sum_streams_ || y_streams_ ? block_ : end - begin;
      for (int64_t r = begin; r < end; r += step) {
        const int64_t count = std::min(step, end - r), from = r * n_;
        if (call_.mask) {
          drop_elements(*call_.mask, at<T>(call_.delta, from), from, count * n_, dropped.get());
          rows(kernels_.forward_wide, dropped.get(), r, count, sum, y);
        } else {
          rows(kernels_.forward, at<T>(call_.delta, from), r, count, sum, y);
        }
      }
    });
  }

 private:
  template <class Kernel, class D>
  void rows(Kernel kernel, const D* delta, int64_t first, int64_t count, const RowWriter<T>& sum,
            const RowWriter<T>& y) const {
    const int64_t from = first * n_;
    T *const to_sum = at<T>(out_.sum, from), *const to_y = at<T>(out_.y, from);
    kernel(at<T>(call_.x, from), delta, count, n_, weight_.get(), bias_.get(), static_cast<A>(call_.eps),
           sum.block(to_sum), y.block(to_y), at<A>(out_.mean, first), at<A>(out_.rstd, first));
    sum.write(to_sum, count);
    y.write(to_y, count);
  }

  const NormalizationRows<T>& kernels_ = normalization_rows<T>();
  const NormalizationCall& call_;
  const ops::Normalized& out_;
  int64_t n_, block_;
  bool sum_streams_, y_streams_;
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
        block_(block_rows(n_)),
        // The half types' arithmetic takes longer than memory here.
        dx_streams_(!is_half<T> && streams<T>(out.x, n_, {call.x, call.dy, call.dsum})),
        delta_streams_(!is_half<T> && streams<T>(out.delta, n_, {call.x, call.dy, call.dsum})),
        weight_(call.weight) {}

  void run() const {
    const int64_t per_group = std::max<int64_t>(32, (rows_ + 63) / 64);
    const int64_t groups = (rows_ + per_group - 1) / per_group;
    A *const dweight = at<A>(out_.weight), *const dbias = at<A>(out_.bias);
    // Each group's dweight, then its dbias.
    const Scratch<A> partials(dweight || dbias ? groups * 2 * n_ : 0);
    parallel_for(groups, 1 + grain_elements / (per_group * n_), [&](int64_t begin, int64_t end) {
      const Scratch<A> scratch(out_.delta.defined() ? block_ * n_ : 0);
      const RowWriter<T> dx(dx_streams_, block_, n_), delta(delta_streams_, block_, n_);
      for (int64_t g = begin; g < end; ++g) {
        A* partial = partials.get() ? partials.get() + g * 2 * n_ : nullptr;
        if (partial) std::fill_n(partial, 2 * n_, A(0));
        const int64_t first = g * per_group, last = std::min(rows_, first + per_group);
        const int64_t step = out_.delta.defined() || dx_streams_ ? block_ : last - first;
        for (int64_t r = first; r < last; r += step)
          rows(r, std::min(step, last - r), dweight ? partial : nullptr, dbias ? partial + n_ : nullptr,
               scratch.get(), dx, delta);
      }
    });
    if (dweight) add_groups(partials.get(), 2 * n_, groups, n_, dweight);
    if (dbias) add_groups(partials.get() + n_, 2 * n_, groups, n_, dbias);
  }

 private:
  void rows(int64_t first, int64_t count, A* dweight, A* dbias, A* scratch, const RowWriter<T>& dx,
            const RowWriter<T>& delta) const {
    const int64_t from = first * n_;
    const T *const x = at<T>(call_.x, from), *const dy = at<T>(call_.dy, from),
                   *const dsum = at<T>(call_.dsum, from);
    const A *const mean = at<A>(call_.mean, first), *const rstd = at<A>(call_.rstd, first);
    T *const to_dx = at<T>(out_.x, from), *const to_delta = at<T>(out_.delta, from);
    if (to_delta) {
      kernels_.backward_wide(x, dy, dsum, count, n_, weight_.get(), mean, rstd, scratch, dx.block(to_dx),
                             dweight, dbias);
      drop_elements(*call_.mask, scratch, from, count * n_, delta.block(to_delta));
      delta.write(to_delta, count);
    } else {
      kernels_.backward(x, dy, dsum, count, n_, weight_.get(), mean, rstd, dx.block(to_dx), dweight, dbias);
    }
    dx.write(to_dx, count);
  }

  const NormalizationRows<T>& kernels_ = normalization_rows<T>();
  const NormalizationBackwardCall& call_;
  const ops::NormalizationGradients& out_;
  int64_t rows_, n_, block_;
  bool dx_streams_, delta_streams_;
  Operand<T> weight_;
};

template <class T>
void normalize_again(const Tensor& x, const Operand<T>& weight, const Operand<T>& bias, const Tensor& mean,
                     const Tensor& rstd, const Tensor& y) {
  using A = accumulator_of<T>;
  const auto kernel = normalization_rows<T>().scale;
  const int64_t n = x.numel() / rstd.numel(), block = block_rows(n);
  const bool streamed = streams<T>(y, n, {x});
  parallel_for(rstd.numel(), 1 + grain_elements / n, [&](int64_t begin, int64_t end) {
    const RowWriter<T> writer(streamed, block, n);
    const int64_t step = streamed ? block : end - begin;
    for (int64_t r = begin; r < end; r += step) {
      const int64_t count = std::min(step, end - r);
      T* const to = at<T>(y, r * n);
      kernel(at<T>(x, r * n), count, n, weight.get(), bias.get(), at<A>(mean, r), at<A>(rstd, r),
             writer.block(to));
      writer.write(to, count);
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

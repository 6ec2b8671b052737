// Layer norm and RMS norm over rows. The gradients of weight and bias are added up within fixed groups of
// rows, one buffer a group, and the groups in order: at most 64 groups, whatever the number of threads.
#include "tensor/cpu/normalization.h"

#include <algorithm>
#include <vector>

#include "tensor/cpu/normalization_rows.h"
#include "tensor/cpu/row_access.h"
#include "tensor/dtype_switch.h"
#include "tensor/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 8192;

template <class A>
const NormalizationRows<A>& normalization_rows() {
  if constexpr (std::is_same_v<A, float>)
    return TESSERA_PER_ISA(normalization_rows_f32)();
  else
    return TESSERA_PER_ISA(normalization_rows_f64)();
}

template <class T>
T* typed(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw_data()) : nullptr;
}

/// A contiguous tensor in the type to compute with: itself, or a copy in `buffer`; null when undefined.
template <class T, class A>
const A* widened(const Tensor& tensor, std::vector<A>& buffer) {
  if (!tensor.defined()) return nullptr;
  if constexpr (std::is_same_v<T, A>) {
    return typed<T>(tensor);
  } else {
    buffer.resize(static_cast<size_t>(tensor.numel()));
    widen_row(typed<T>(tensor), 1, tensor.numel(), buffer.data());
    return buffer.data();
  }
}

template <class A>
A* at(A* base, int64_t offset) {
  return base ? base + offset : nullptr;
}

template <class T>
void forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
             const ops::Normalized& out) {
  using A = accumulator_of<T>;
  const auto kernel = normalization_rows<A>().forward;
  const int64_t rows = out.rstd.numel(), n = x.numel() / rows;
  std::vector<A> weight_buffer, bias_buffer;
  const A* w = widened<T, A>(weight, weight_buffer);
  const A* b = widened<T, A>(bias, bias_buffer);
  const T* from = typed<T>(x);
  T* to = typed<T>(out.y);
  A* mean = typed<A>(out.mean);
  A* rstd = typed<A>(out.rstd);
  parallel_for(rows, 1 + grain_elements / n, [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<T, A>) {
      kernel(from + begin * n, end - begin, n, w, b, static_cast<A>(eps), to + begin * n, at(mean, begin),
             rstd + begin);
    } else {
      std::vector<A> row(static_cast<size_t>(2 * n));
      for (int64_t r = begin; r < end; ++r) {
        widen_row(from + r * n, 1, n, row.data());
        kernel(row.data(), 1, n, w, b, static_cast<A>(eps), row.data() + n, at(mean, r), rstd + r);
        narrow_row(row.data() + n, 1, n, to + r * n);
      }
    }
  });
}

/// The sum over `groups` rows of n numbers, in order, in f64.
template <class A>
void add_groups(const A* parts, int64_t stride, int64_t groups, int64_t n, A* out) {
  parallel_for(n, 1 + grain_elements / groups, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t g = 0; g < groups; ++g) sum += static_cast<double>(parts[g * stride + i]);
      out[i] = static_cast<A>(sum);
    }
  });
}

template <class T>
class Backward {
 public:
  using A = accumulator_of<T>;

  Backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
           const ops::NormalizationGradients& out)
      : rows_(rstd.numel()),
        n_(x.numel() / rows_),
        dy_(typed<T>(dy)),
        x_(typed<T>(x)),
        weight_(widened<T, A>(weight, weight_buffer_)),
        mean_(typed<A>(mean)),
        rstd_(typed<A>(rstd)),
        dx_(typed<T>(out.x)),
        dweight_(typed<A>(out.weight)),
        dbias_(typed<A>(out.bias)) {}

  void run() {
    const int64_t per_group = std::max<int64_t>(32, (rows_ + 63) / 64);
    const int64_t groups = (rows_ + per_group - 1) / per_group;
    // Each group's dweight, then its dbias.
    std::vector<A> parts(static_cast<size_t>(dweight_ || dbias_ ? groups * 2 * n_ : 0));
    parallel_for(groups, 1 + grain_elements / (per_group * n_), [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        A* part = parts.data() + g * 2 * n_;
        rows(g * per_group, std::min(rows_, (g + 1) * per_group), dweight_ ? part : nullptr,
             dbias_ ? part + n_ : nullptr);
      }
    });
    if (dweight_) add_groups(parts.data(), 2 * n_, groups, n_, dweight_);
    if (dbias_) add_groups(parts.data() + n_, 2 * n_, groups, n_, dbias_);
  }

 private:
  void rows(int64_t begin, int64_t end, A* dweight, A* dbias) const {
    if constexpr (std::is_same_v<T, A>) {
      kernel_(x_ + begin * n_, dy_ + begin * n_, end - begin, n_, weight_, at(mean_, begin), rstd_ + begin,
              at(dx_, begin * n_), dweight, dbias);
    } else {
      std::vector<A> row(static_cast<size_t>(3 * n_));
      A *x = row.data(), *dy = x + n_, *dx = dx_ ? dy + n_ : nullptr;
      for (int64_t r = begin; r < end; ++r) {
        widen_row(x_ + r * n_, 1, n_, x);
        widen_row(dy_ + r * n_, 1, n_, dy);
        kernel_(x, dy, 1, n_, weight_, at(mean_, r), rstd_ + r, dx, dweight, dbias);
        if (dx) narrow_row(dx, 1, n_, dx_ + r * n_);
      }
    }
  }

  decltype(NormalizationRows<A>::backward) kernel_ = normalization_rows<A>().backward;
  int64_t rows_, n_;
  const T *dy_, *x_;
  std::vector<A> weight_buffer_;
  const A* weight_;
  const A *mean_, *rstd_;
  T* dx_;
  A *dweight_, *dbias_;
};

}  // namespace

void normalization(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                   const ops::Normalized& out) {
  if (x.numel() == 0) {
    out.rstd.zero();
    if (out.mean.defined()) out.mean.zero();
    return;
  }
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) { forward<T>(x, weight, bias, eps, out); });
}

void normalization_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                            const Tensor& rstd, const ops::NormalizationGradients& out) {
  if (x.numel() == 0) {
    if (out.weight.defined()) out.weight.zero();
    if (out.bias.defined()) out.bias.zero();
    return;
  }
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) { Backward<T>(dy, x, weight, mean, rstd, out).run(); });
}

}  // namespace tessera::kernels::cpu

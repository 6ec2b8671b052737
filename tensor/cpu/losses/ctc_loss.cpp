// The forward-backward algorithm in log-space (Graves et al. 2006, sections 4.1 and 4.2). A sample of L
// labels has 2 L + 1 states: blank, label, blank, label, ..., blank. A path stays in its state, goes to the
// next one, or skips the blank between two different labels. Samples run in parallel; forward stores its
// table, backward keeps two rows of its own.
#include "tensor/cpu/losses/ctc_loss.h"

#include <algorithm>
#include <limits>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/log.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

/// log(e^a + e^b + e^c).
double log_sum(double a, double b, double c) {
  const double largest = std::max(a, std::max(b, c));
  if (largest == impossible) return impossible;
  return largest + elementwise::log(elementwise::exp(a - largest) + elementwise::exp(b - largest) +
                                    elementwise::exp(c - largest));
}

/// The log-probabilities of one sample.
template <class T>
class Frames {
 public:
  Frames(const Tensor& log_probs, int64_t sample)
      : data_(static_cast<const T*>(log_probs.raw_data()) + sample * log_probs.strides()[1]),
        time_(log_probs.strides()[0]),
        class_(log_probs.strides()[2]) {}
  double operator()(int64_t t, int64_t label) const {
    return widen<double>(data_[t * time_ + label * class_]);
  }

 private:
  const T* data_;
  int64_t time_, class_;
};

/// The states of one sample.
class States {
 public:
  States(const int64_t* labels, int64_t length, int64_t blank)
      : labels_(labels), count_(2 * length + 1), blank_(blank) {}
  int64_t count() const { return count_; }
  int64_t label(int64_t s) const { return s % 2 == 0 ? blank_ : labels_[s / 2]; }
  /// Whether a path may come to state s from s - 2.
  bool skips(int64_t s) const { return s % 2 == 1 && s >= 3 && labels_[s / 2] != labels_[s / 2 - 1]; }

 private:
  const int64_t* labels_;
  int64_t count_, blank_;
};

/// Fills alpha (frames, width) and returns the loss.
template <class T>
double forward(const Frames<T>& frames, const States& states, int64_t length, int64_t width, double* alpha) {
  if (length == 0) return states.count() == 1 ? 0.0 : -impossible;
  const int64_t n = states.count();
  std::fill_n(alpha, n, impossible);
  for (int64_t s = 0; s < std::min<int64_t>(n, 2); ++s) alpha[s] = frames(0, states.label(s));
  for (int64_t t = 1; t < length; ++t) {
    const double* const before = alpha + (t - 1) * width;
    double* const now = alpha + t * width;
    for (int64_t s = 0; s < n; ++s)
      now[s] = frames(t, states.label(s)) + log_sum(before[s], s > 0 ? before[s - 1] : impossible,
                                                    states.skips(s) ? before[s - 2] : impossible);
  }
  const double* const last = alpha + (length - 1) * width;
  return -log_sum(last[n - 1], n > 1 ? last[n - 2] : impossible, impossible);
}

/// Adds -dloss times the probability of each label at each frame, given the targets, to dx (T, N, C).
/// beta[s] is the log-probability of what follows state s.
template <class T>
void backward(const Frames<T>& frames, const States& states, int64_t length, int64_t width,
              const double* alpha, double loss, double dloss, double* beta, double* row, int64_t classes,
              T* dx, int64_t frame_step) {
  const int64_t n = states.count();
  double *now = beta, *after = beta + n;
  for (int64_t t = length - 1; t >= 0; --t) {
    for (int64_t s = 0; s < n; ++s) {
      if (t == length - 1) {
        now[s] = s + 2 >= n ? 0.0 : impossible;
        continue;
      }
      const auto step = [&](int64_t to) { return after[to] + frames(t + 1, states.label(to)); };
      now[s] = log_sum(step(s), s + 1 < n ? step(s + 1) : impossible,
                       s + 2 < n && states.skips(s + 2) ? step(s + 2) : impossible);
    }
    std::fill_n(row, classes, 0.0);
    for (int64_t s = 0; s < n; ++s)
      row[states.label(s)] -= dloss * elementwise::exp(alpha[t * width + s] + now[s] + loss);
    narrow_row(row, 1, classes, dx + t * frame_step);
    std::swap(now, after);
  }
}

}  // namespace

void ctc_loss(const Tensor& log_probs, const Tensor& labels, const Tensor& input_lengths,
              const Tensor& target_lengths, int64_t blank, const Tensor& log_alpha, const Tensor& loss) {
  const int64_t samples = log_probs.size(1), targets = labels.size(1), width = log_alpha.size(2);
  const int64_t table = log_alpha.size(1) * width;
  with_floating(log_probs.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(samples, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const States states(labels.data<int64_t>() + i * targets, target_lengths.data<int64_t>()[i], blank);
        loss.data<double>()[i] = forward(Frames<T>(log_probs, i), states, input_lengths.data<int64_t>()[i],
                                         width, log_alpha.data<double>() + i * table);
      }
    });
  });
}

void ctc_loss_backward(const Tensor& dloss, const Tensor& log_probs, const Tensor& labels,
                       const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank,
                       bool zero_infinity, const Tensor& log_alpha, const Tensor& loss, const Tensor& out) {
  const int64_t samples = log_probs.size(1), classes = log_probs.size(2), targets = labels.size(1);
  const int64_t width = log_alpha.size(2), table = log_alpha.size(1) * width;
  out.zero();
  with_floating(log_probs.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(samples, 1, [&](int64_t begin, int64_t end) {
      const Scratch<double> beta(2 * width), row(classes);
      for (int64_t i = begin; i < end; ++i) {
        const double nll = loss.data<double>()[i];
        if (zero_infinity && nll == -impossible) continue;
        const States states(labels.data<int64_t>() + i * targets, target_lengths.data<int64_t>()[i], blank);
        backward(Frames<T>(log_probs, i), states, input_lengths.data<int64_t>()[i], width,
                 log_alpha.data<double>() + i * table, nll, dloss.data<double>()[i], beta.get(), row.get(),
                 classes, out.data<T>() + i * classes, samples * classes);
      }
    });
  });
}

}  // namespace tessera::kernels::cpu

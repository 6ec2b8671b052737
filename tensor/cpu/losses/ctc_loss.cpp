// The forward-backward algorithm in log-space (Graves et al. 2006, sections 4.1 and 4.2). A sample of L
// labels has 2 L + 1 states: blank, label, blank, label, ..., blank. A path stays in its state, goes to the
// next one, or skips the blank between two different labels. Samples run in parallel; forward stores its
// table, backward keeps two rows of its own.
#include "tensor/cpu/losses/ctc_loss.h"

#include <algorithm>
#include <limits>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/ctc_rows.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

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

/// The states of one sample, and rows of values for them. A row has two values of minus infinity on each
/// side, so that every state has neighbours.
class States {
 public:
  States(const int64_t* labels, int64_t length, int64_t blank)
      : labels_(labels), count_(2 * length + 1), blank_(blank), values_(5 * (count_ + 4)) {
    std::fill_n(values_.get(), 5 * (count_ + 4), impossible);
    // A path may come to the state of a label from that of the label before, if they differ.
    for (int64_t s = 3; s < count_; s += 2)
      if (labels_[s / 2] != labels_[s / 2 - 1]) mask()[s] = 0;
  }
  int64_t count() const { return count_; }
  int64_t label(int64_t s) const { return s % 2 == 0 ? blank_ : labels_[s / 2]; }

  /// Rows: what a path may skip (0 or minus infinity), the scores of a frame, and three of a recursion.
  /// @{
  double* mask() const { return row(0); }
  double* score() const { return row(1); }
  double* now() const { return row(2); }
  double* before() const { return row(3); }
  double* other() const { return row(4); }
  /// @}
  template <class T>
  void read_scores(const Frames<T>& frames, int64_t t) const {
    for (int64_t s = 0; s < count_; ++s) score()[s] = frames(t, label(s));
  }

 private:
  double* row(int64_t i) const { return values_.get() + i * (count_ + 4) + 2; }

  const int64_t* labels_;
  int64_t count_, blank_;
  Scratch<double> values_;
};

/// Fills alpha (frames, width) and returns the loss.
template <class T>
double forward(const Frames<T>& frames, const States& states, int64_t length, int64_t width, double* alpha) {
  if (length == 0) return states.count() == 1 ? 0.0 : -impossible;
  const CtcRows rows = TESSERA_PER_ISA(ctc_rows)();
  const int64_t n = states.count();
  double *now = states.now(), *before = states.before();
  before[-1] = 0;  // before the first frame every path is in front of the first state
  for (int64_t t = 0; t < length; ++t) {
    states.read_scores(frames, t);
    rows.advance(states.score(), before, before - 1, before - 2, states.mask(), n, now);
    if (t == 0) {
      before[-1] = impossible;
      if (n > 1) now[1] = states.score()[1];
    }
    std::copy_n(now, n, alpha + t * width);
    std::swap(now, before);
  }
  // The log-sum of the last two states, by the recursion to a state behind them.
  const double zero = 0;
  double sum;
  rows.advance(&zero, before + n - 1, before + n - 2, &impossible, &zero, 1, &sum);
  return -sum;
}

/// Writes -dloss times the probability of each label at each frame, given the targets, to dx (T, N, C).
template <class T>
void backward(const Frames<T>& frames, const States& states, int64_t length, int64_t width,
              const double* alpha, double loss, double dloss, double* probabilities, int64_t classes, T* dx,
              int64_t frame_step) {
  const CtcRows rows = TESSERA_PER_ISA(ctc_rows)();
  const int64_t n = states.count();
  // beta[s] is the log-probability of what follows state s; `next` is that with the score of s itself.
  double *beta = states.now(), *next = states.before(), *const posterior = states.other();
  const Scratch<double> zeros(n);
  std::fill_n(zeros.get(), n, 0.0);
  for (int64_t t = length - 1; t >= 0; --t) {
    if (t == length - 1)
      for (int64_t s = 0; s < n; ++s) beta[s] = s + 2 >= n ? 0.0 : impossible;
    else
      rows.advance(zeros.get(), next, next + 1, next + 2, states.mask() + 2, n, beta);
    rows.posterior(alpha + t * width, beta, loss, -dloss, n, posterior);
    std::fill_n(probabilities, classes, 0.0);
    for (int64_t s = 0; s < n; ++s) probabilities[states.label(s)] += posterior[s];
    narrow_row(probabilities, 1, classes, dx + t * frame_step);
    states.read_scores(frames, t);
    for (int64_t s = 0; s < n; ++s) next[s] = beta[s] + states.score()[s];
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
      const Scratch<double> probabilities(classes);
      for (int64_t i = begin; i < end; ++i) {
        const double nll = loss.data<double>()[i];
        if (zero_infinity && nll == -impossible) continue;
        const States states(labels.data<int64_t>() + i * targets, target_lengths.data<int64_t>()[i], blank);
        backward(Frames<T>(log_probs, i), states, input_lengths.data<int64_t>()[i], width,
                 log_alpha.data<double>() + i * table, nll, dloss.data<double>()[i], probabilities.get(),
                 classes, out.data<T>() + i * classes, samples * classes);
      }
    });
  });
}

}  // namespace tessera::kernels::cpu

// The backward of a recurrent layer through its steps. `dh` and `dc` hold, for every sequence, the gradients
// of its present h and c by the steps computed after: they begin as those of h_n and c_n, and end as those of
// h0 and c0. Per step, each thread takes blocks of hidden features: it multiplies the gates' gradients of the
// step before (all features) with the block's columns of W_hh, and computes the cell's gradients. All threads
// meet once a step, twice with a projection. Gradients of weights are products of all steps, made by the
// caller.
#include <cstring>
#include <optional>

#include "tensor/arguments/recurrent_steps.h"
#include "tensor/cpu/loops/recurrent_cells.h"
#include "tensor/cpu/recurrent/packed_weight.h"
#include "tensor/cpu/recurrent/recurrence.h"

namespace tessera::kernels::cpu {
namespace {

/// The fewest multiply-adds for which a second thread is worth its start.
constexpr int64_t grain = 1 << 15;

template <class T>
class Backward {
 public:
  using A = accumulator_of<T>;
  using Layout = typename PackedWeight<A>::Layout;
  static constexpr bool is_wide = std::is_same_v<T, A>;
  static constexpr int64_t width = PackedWeight<A>::width;

  Backward(const RecurrentOptions& options, const ops::RecurrenceOperands& o, const ops::Recurrence& forward,
           const RecurrenceIncoming& incoming, const ops::RecurrenceGradients& out)
      : options_(options),
        o_(o),
        forward_(forward),
        incoming_(incoming),
        out_(out),
        gates_(gates_of(options.cell)),
        batch_(options.batch()),
        hidden_(o.weight_hh.size(0) / gates_),
        features_(o.weight_hh.size(1)),
        weight_(o.weight_hh, 1, Layout::keep),
        dh_(batch_ * features_),
        dc_(o.c0.defined() ? batch_ * hidden_ : 0),
        c0_(is_wide || !o.c0.defined() ? 0 : batch_ * hidden_),
        wide_gates_(is_wide ? 0 : 2 * batch_ * gates_ * hidden_),
        wide_h_(is_wide || !o.weight_hr.defined() ? 0 : batch_ * features_),
        dhidden_(o.weight_hr.defined() ? batch_ * hidden_ : 0) {
    if (o.weight_hr.defined()) projection_.emplace(o.weight_hr, 1, Layout::keep);
    begin_with(incoming.dh_n, batch_ * features_, dh_.get());
    if (dc_.get()) begin_with(incoming.dc_n, batch_ * hidden_, dc_.get());
    if constexpr (!is_wide)
      if (c0_.get()) widen_contiguous(data(o.c0), batch_ * hidden_, c0_.get());
  }

  void run() {
    steps_ = steps_of(options_);
    for (size_t s = steps_.size(); s-- > 0;) {
      over_blocks(weight_, s + 1, [&](int64_t block) {
        add_later(s + 1, block);
        if (!projection_)
          differentiate_units(s, block);
        else
          add_projected(s, block);
      });
      if (projection_)
        over_blocks(*projection_, s, [&](int64_t block) {
          const A* dh =
              is_wide ? reinterpret_cast<const A*>(data(out_.h) + steps_[s].row * features_) : wide_h_.get();
          projection_->multiply(steps_[s].rows, dh, features_, block, 0, projection_->columns(block),
                                dhidden_.get() + block * width, hidden_);
          differentiate_units(s, block);
        });
    }
    over_blocks(weight_, 0, [&](int64_t block) { add_later(0, block); });
    narrow_contiguous(dh_.get(), batch_ * features_, data(out_.h0));
    if (out_.c0.defined()) narrow_contiguous(dc_.get(), batch_ * hidden_, data(out_.c0));
  }

 private:
  static T* data(const Tensor& x) { return static_cast<T*>(x.raw_data()); }
  static A* wide_data(const Tensor& x) { return x.defined() ? static_cast<A*>(x.raw_data()) : nullptr; }
  static void begin_with(const Tensor& gradient, int64_t n, A* to) {
    if (gradient.defined())
      widen_contiguous(data(gradient), n, to);
    else
      std::fill_n(to, n, A(0));
  }

  template <class Body>
  void over_blocks(const PackedWeight<A>& weight, size_t s, const Body& body) const {
    const int64_t rows = steps_[std::min(s, steps_.size() - 1)].rows;
    parallel_for(weight.blocks(), 1 + grain / (rows * weight.k() * width + 1),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t block = begin; block < end; ++block) body(block);
                 });
  }

  /// The gates' gradients of step s, in A.
  A* gates_of_step(size_t s) const {
    if constexpr (is_wide)
      return data(out_.gates) + steps_[s].row * gates_ * hidden_;
    else
      return wide_gates_.get() + static_cast<int64_t>(s % 2) * batch_ * gates_ * hidden_;
  }

  /// dh of this block = the gates' gradients of step s (the one computed after) times W_hh. GRU's third gate
  /// has its own gradient on this side, and dh holds what went past the gates already.
  void add_later(size_t s, int64_t block) const {
    if (s >= steps_.size()) return;
    const int64_t rows = steps_[s].rows, columns = weight_.columns(block), row = gates_ * hidden_;
    A* const dh = dh_.get() + block * width;
    if (options_.cell != RecurrentCell::gru)
      return weight_.multiply(rows, gates_of_step(s), row, block, 0, columns, dh, features_);
    weight_.multiply(rows, gates_of_step(s), row, block, 0, columns, dh, features_, true, 0, 2 * hidden_);
    weight_.multiply(rows, wide_data(out_.extra) + steps_[s].row * hidden_, hidden_, block, 0, columns, dh,
                     features_, true, 2 * hidden_, hidden_);
  }

  /// With a projection: the gradient of its result, dy + dh.
  void add_projected(size_t s, int64_t block) const {
    const RecurrentStep& step = steps_[s];
    for (int64_t r = 0; r < step.rows; ++r) {
      const int64_t at = (step.row + r) * features_ + block * width, n = weight_.columns(block);
      const A* dh = dh_.get() + r * features_ + block * width;
      const T* dy = incoming_.dy.defined() ? data(incoming_.dy) + at : nullptr;
      T* const sum = data(out_.h) + at;
      for (int64_t j = 0; j < n; ++j) sum[j] = narrow<T>(dy ? dh[j] + widen<A>(dy[j]) : dh[j]);
      if constexpr (!is_wide) widen_contiguous(sum, n, wide_h_.get() + r * features_ + block * width);
    }
  }

  /// LSTM's c or GRU's h before step s, from row `row` on, which are all continued or all initial.
  const void* state_before(const RecurrentStep& step, int64_t row) const {
    const bool continued = row < step.continued;
    if (options_.cell == RecurrentCell::gru)
      return (continued ? data(forward_.y) + step.previous * features_ : data(o_.h0)) + row * features_;
    if (options_.cell != RecurrentCell::lstm) return nullptr;
    if (continued) return wide_data(forward_.extra) + (step.previous + row) * hidden_;
    if constexpr (is_wide)
      return data(o_.c0) + row * hidden_;
    else
      return c0_.get() + row * hidden_;
  }

  void differentiate_units(size_t s, int64_t block) const {
    const RecurrentStep& step = steps_[s];
    const int64_t bounds[] = {0, step.continued, step.rows}, first = block * width;
    const bool is_gru = options_.cell == RecurrentCell::gru;
    for (int part = 0; part < 2; ++part) {
      const int64_t row = bounds[part], rows = bounds[part + 1] - row, at = step.row + row;
      if (rows == 0) continue;
      const void* before = state_before(step, row);
      const int64_t unit_bytes = is_gru ? sizeof(T) : sizeof(A), row_of_gates = gates_ * hidden_;
      const bool has_dy = incoming_.dy.defined() && !projection_;
      A* const extra = wide_data(forward_.extra);
      kernels_.backward({.rows = rows,
                         .units = std::min(width, hidden_ - first),
                         .hidden = hidden_,
                         .dy = has_dy ? data(incoming_.dy) + at * features_ + first : nullptr,
                         .dy_row = features_,
                         .dh = (projection_ ? dhidden_.get() : dh_.get()) + row * hidden_ + first,
                         .dh_row = hidden_,
                         .gates = data(forward_.gates) + at * row_of_gates + first,
                         .gates_row = row_of_gates,
                         .dgates = data(out_.gates) + at * row_of_gates + first,
                         .wide_dgates = is_wide ? nullptr : gates_of_step(s) + row * row_of_gates + first,
                         .dgates_row = row_of_gates,
                         .state = before ? static_cast<const char*>(before) + first * unit_bytes : nullptr,
                         .state_row = hidden_,
                         .extra = extra ? extra + at * hidden_ + first : nullptr,
                         .dextra = is_gru ? wide_data(out_.extra) + at * hidden_ + first : nullptr,
                         .dc = dc_.get() ? dc_.get() + row * hidden_ + first : nullptr});
    }
  }

  const RecurrentOptions& options_;
  const ops::RecurrenceOperands& o_;
  const ops::Recurrence& forward_;
  const RecurrenceIncoming& incoming_;
  const ops::RecurrenceGradients& out_;
  int64_t gates_, batch_, hidden_, features_;  // G, B, H, P
  PackedWeight<A> weight_;
  std::optional<PackedWeight<A>> projection_;
  std::vector<RecurrentStep> steps_;
  Scratch<A> dh_, dc_;
  // For half types: c0, the gates' gradients of two steps and the projection's gradient, in A.
  Scratch<A> c0_, wide_gates_, wide_h_;
  Scratch<A> dhidden_;  // of one step, with a projection
  CellKernels kernels_ = TESSERA_PER_ISA(recurrent_cell)(options_.cell, dtype_of<T>);
};

}  // namespace

void recurrence_backward(const RecurrentOptions& options, const ops::RecurrenceOperands& operands,
                         const ops::Recurrence& forward, const RecurrenceIncoming& incoming,
                         const ops::RecurrenceGradients& out) {
  with_floating(forward.y.dtype(),
                [&]<class T>(TypeTag<T>) { Backward<T>(options, operands, forward, incoming, out).run(); });
}

}  // namespace tessera::kernels::cpu

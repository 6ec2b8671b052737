// The forward of a recurrent layer: per step, each thread takes blocks of hidden features. For a block it
// multiplies h of the step before with the block's columns of all gates, and computes the cell while the
// products are in the first-level cache. All threads meet once a step, twice with a projection.
#include <cstring>
#include <optional>

#include "tensor/arguments/recurrent_steps.h"
#include "tensor/cpu/loops/recurrent_cells.h"
#include "tensor/cpu/recurrent/gate_biases.h"
#include "tensor/cpu/recurrent/packed_weight.h"
#include "tensor/cpu/recurrent/recurrence.h"

namespace tessera::kernels::cpu {
namespace {

/// The fewest multiply-adds for which a second thread is worth its start.
constexpr int64_t grain = 1 << 15;

template <class T>
class Forward {
 public:
  using A = accumulator_of<T>;
  using Layout = typename PackedWeight<A>::Layout;
  static constexpr bool is_wide = std::is_same_v<T, A>;
  static constexpr int64_t width = PackedWeight<A>::width;

  Forward(const RecurrentOptions& options, const ops::RecurrenceOperands& o, const ops::Recurrence& out)
      : options_(options),
        o_(o),
        out_(out),
        gates_(gates_of(options.cell)),
        batch_(options.batch()),
        hidden_(o.weight_hh.size(0) / gates_),
        features_(o.weight_hh.size(1)),
        weight_(o.weight_hh, gates_, Layout::transpose),
        product_(weight_.blocks() * batch_ * gates_ * width),
        biases_(options.cell, o, hidden_),
        h0_(is_wide ? 0 : batch_ * features_),
        c0_(is_wide || !o.c0.defined() ? 0 : batch_ * hidden_),
        states_(is_wide ? 0 : 2 * batch_ * features_),
        wide_hidden_(is_wide || !o.weight_hr.defined() ? 0 : batch_ * hidden_) {
    if (o.weight_hr.defined()) projection_.emplace(o.weight_hr, 1, Layout::transpose);
    if constexpr (!is_wide) {
      widen_contiguous(data(o.h0), batch_ * features_, h0_.get());
      if (c0_.get()) widen_contiguous(data(o.c0), batch_ * hidden_, c0_.get());
    }
  }

  void run() {
    const std::vector<RecurrentStep> steps = steps_of(options_);
    for (size_t s = 0; s < steps.size(); ++s) {
      const RecurrentStep& step = steps[s];
      const int64_t work = step.rows * gates_ * width * features_;
      parallel_for(weight_.blocks(), 1 + grain / (work + 1), [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) compute_units(s, step, block);
      });
      if (projection_) project(s, step);
      write_last(step, s + 1 < steps.size() ? steps[s + 1].rows : 0);
    }
  }

 private:
  static T* data(const Tensor& x) { return static_cast<T*>(x.raw_data()); }
  A* extra(int64_t row) const {
    return out_.extra.defined() ? static_cast<A*>(out_.extra.raw_data()) + row * hidden_ : nullptr;
  }
  /// The buffer of h in A after step s, for half types.
  A* state(size_t s) const { return states_.get() + static_cast<int64_t>(s % 2) * batch_ * features_; }

  /// h before step s, from its row `row` on, which are all continued or all initial.
  const A* h_before(size_t s, const RecurrentStep& step, int64_t row) const {
    const bool continued = row < step.continued;
    if constexpr (is_wide)
      return (continued ? data(out_.y) + step.previous * features_ : data(o_.h0)) + row * features_;
    else
      return (continued ? state(s + 1) : h0_.get()) + row * features_;
  }
  /// The state that the cell reads: LSTM's c, GRU's h.
  const void* state_before(const RecurrentStep& step, int64_t row) const {
    const bool continued = row < step.continued;
    if (options_.cell == RecurrentCell::gru)
      return (continued ? data(out_.y) + step.previous * features_ : data(o_.h0)) + row * features_;
    if (options_.cell != RecurrentCell::lstm) return nullptr;
    if (continued) return extra(step.previous + row);
    if constexpr (is_wide)
      return data(o_.c0) + row * hidden_;
    else
      return c0_.get() + row * hidden_;
  }

  void compute_units(size_t s, const RecurrentStep& step, int64_t block) const {
    const int64_t bounds[] = {0, step.continued, step.rows}, first = block * width;
    A* const product = product_.get() + block * batch_ * gates_ * width;
    for (int part = 0; part < 2; ++part) {
      const int64_t row = bounds[part], rows = bounds[part + 1] - row;
      if (rows == 0) continue;
      for (int64_t g = 0; g < gates_; ++g)
        weight_.multiply(rows, h_before(s, step, row), features_, block, g, width, product + g * width,
                         gates_ * width);
      const Tensor& to = projection_ ? out_.hidden : out_.y;
      A* wide = nullptr;
      if constexpr (!is_wide) wide = (projection_ ? wide_hidden_.get() : state(s)) + row * hidden_ + first;
      const void* before = state_before(step, row);
      const int64_t unit_bytes = options_.cell == RecurrentCell::gru ? sizeof(T) : sizeof(A);
      A* const cells = extra(step.row + row);
      kernels_.forward({.rows = rows,
                        .units = weight_.columns(block),
                        .hidden = hidden_,
                        .gates = data(out_.gates) + (step.row + row) * gates_ * hidden_ + first,
                        .gates_row = gates_ * hidden_,
                        .product = product,
                        .product_row = gates_ * width,
                        .product_gate = width,
                        .bias = biases_.joined() + first,
                        .hidden_bias = biases_.hidden() + first,
                        .state = before ? static_cast<const char*>(before) + first * unit_bytes : nullptr,
                        .state_row = hidden_,
                        .extra = cells ? cells + first : nullptr,
                        .out = data(to) + (step.row + row) * hidden_ + first,
                        .out_row = hidden_,
                        .wide_out = wide,
                        .wide_out_row = hidden_});
    }
  }

  /// y = hidden W_hr^T.
  void project(size_t s, const RecurrentStep& step) const {
    const int64_t work = step.rows * width * hidden_;
    parallel_for(projection_->blocks(), 1 + grain / (work + 1), [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t columns = projection_->columns(block);
        T* const y = data(out_.y) + step.row * features_ + block * width;
        if constexpr (is_wide) {
          projection_->multiply(step.rows, data(out_.hidden) + step.row * hidden_, hidden_, block, 0, columns,
                                y, features_);
        } else {
          A* const wide = state(s) + block * width;
          projection_->multiply(step.rows, wide_hidden_.get(), hidden_, block, 0, columns, wide, features_);
          for (int64_t r = 0; r < step.rows; ++r) {
            narrow_contiguous(wide + r * features_, columns, y + r * features_);
            widen_contiguous(y + r * features_, columns, wide + r * features_);
          }
        }
      }
    });
  }

  /// h_n and c_n of the rows that end with this step; the first `next` continue.
  void write_last(const RecurrentStep& step, int64_t next) const {
    for (int64_t r = next; r < step.rows; ++r) {
      std::memcpy(data(out_.h_n) + r * features_, data(out_.y) + (step.row + r) * features_,
                  features_ * sizeof(T));
      if (out_.c_n.defined()) narrow_contiguous(extra(step.row + r), hidden_, data(out_.c_n) + r * hidden_);
    }
  }

  const RecurrentOptions& options_;
  const ops::RecurrenceOperands& o_;
  const ops::Recurrence& out_;
  int64_t gates_, batch_, hidden_, features_;  // G, B, H, P
  PackedWeight<A> weight_;
  std::optional<PackedWeight<A>> projection_;
  Scratch<A> product_;  // of one step, by blocks
  GateBiases<T> biases_;
  // For half types: the initial states, h of two steps, and what is projected, as rounded to T.
  Scratch<A> h0_, c0_, states_, wide_hidden_;
  CellKernels kernels_ = TESSERA_PER_ISA(recurrent_cell)(options_.cell, dtype_of<T>);
};

}  // namespace

void recurrence(const RecurrentOptions& options, const ops::RecurrenceOperands& operands,
                const ops::Recurrence& out) {
  with_floating(out.y.dtype(), [&]<class T>(TypeTag<T>) { Forward<T>(options, operands, out).run(); });
}

}  // namespace tessera::kernels::cpu

#pragma once  // internal

#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/recurrent/recurrence.h"
#include "tensor/types/accumulator.h"

namespace tessera::kernels::cpu {

/// The biases as the cells add them: b_ih + b_hh beside the products of the inputs, except GRU's b_hn, which
/// its reset gate multiplies. Absent ones are 0.
template <class T>
class GateBiases {
 public:
  using A = accumulator_of<T>;

  GateBiases(RecurrentCell cell, const ops::RecurrenceOperands& o, int64_t hidden)
      : count_(gates_of(cell) * hidden), values_(count_ + hidden) {
    const int64_t joined = cell == RecurrentCell::gru ? 2 * hidden : count_;
    for (int64_t i = 0; i < count_; ++i)
      values_.get()[i] = at(o.bias_ih, i) + (i < joined ? at(o.bias_hh, i) : A(0));
    for (int64_t j = 0; j < hidden; ++j)
      values_.get()[count_ + j] = joined < count_ ? at(o.bias_hh, joined + j) : A(0);
  }

  const A* joined() const { return values_.get(); }           ///< G H values
  const A* hidden() const { return values_.get() + count_; }  ///< H values: b_hn

 private:
  static A at(const Tensor& bias, int64_t i) {
    return bias.defined() ? static_cast<A>(static_cast<const T*>(bias.raw_data())[i]) : A(0);
  }

  int64_t count_;
  Scratch<A> values_;
};

}  // namespace tessera::kernels::cpu

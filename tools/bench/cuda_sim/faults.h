// Faults that a kernel of this folder may have, for tests of the simulated card's checks.
#pragma once

namespace tessera::sample_kernels {

enum class Fault {
  none,
  sum_without_first_barrier,    ///< a block's sum: its partial sums are written while the last sum reads them
  sum_without_second_barrier,   ///< they are read before all are written
  weight_gradient_no_barrier,   ///< layer norm: rows' partial gradients are read before all are written
  softmax_one_element_too_far,  ///< the largest value of a row is also sought in the next one
  attention_without_wait,       ///< keys are used while cp.async brings them
  attention_without_barrier,    ///< the next keys overwrite those that other warps read
};

}  // namespace tessera::sample_kernels

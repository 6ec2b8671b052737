#pragma once  // internal

#include <cstdint>

#include "tensor/elementwise/target.h"

/// The parts of an optimizer's rule. A rule is a struct in a header of tensor/elementwise/update_rules:
///
///   members         the options, without the learning rate; each rule has `maximize`: the update is by -g
///   name            that of its operation, for errors and profiles: "adam_update"
///   states          its state tensors, at most `max_update_states`
///   variants        how many versions of the loop are compiled; `variant()` chooses one by the options
///   Step<T>         the constants of a step: values of type T and nothing else
///   at(lr, step)    the Step<double> of a step, counted from 1
///
/// and, for one element, the function `apply<variant>(const Step<T>&, T& p, T g, T& state...)` for float and
/// double, which updates parameter p and its state from gradient g. A state that the variant does not have
/// may not be used. Only +, -, *, / and sqrt occur. A decay of 1 and an l2 of 0 leave finite values
/// unchanged, so the loop has no branches.
namespace tessera::elementwise {

inline constexpr int max_update_states = 3;

/// A state tensor, by its name in saved state. `variant`: the bits of the variants that have it; 0: all.
struct UpdateState {
  const char* name;
  unsigned variant = 0;
};

/// Whether a variant of a rule has state k.
template <class Rule>
constexpr bool has_state(unsigned variant, int k) {
  return k < static_cast<int>(sizeof(Rule::states) / sizeof(UpdateState)) &&
         (variant & Rule::states[k].variant) == Rule::states[k].variant;
}

/// base^exponent by repeated squaring: the same bits on every machine, which a library's pow does not
/// guarantee.
TESSERA_HD inline double integer_power(double base, int64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) power *= base;
  return power;
}

}  // namespace tessera::elementwise

// Fused optimizer updates: one pass that reads parameter, gradient and state and writes parameter and state
// (Adam in f32: per element 16 bytes read and 12 written). Bound by memory.
#include "tensor/cpu/isa/optimizer_update.h"

#include <utility>

#include "tensor/cpu/loops/convert.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// Calls body(parameter, gradient) with typed pointers.
template <class Body>
[[gnu::always_inline]] inline void with_types(const UpdateSpan& span, const Body& body) {
  if (span.dtype == DType::f64)
    body(static_cast<double*>(span.parameter), static_cast<const double*>(span.gradient));
  else if (span.gradient_dtype == DType::bf16)
    body(static_cast<float*>(span.parameter), static_cast<const bfloat16*>(span.gradient));
  else if (span.gradient_dtype == DType::f16)
    body(static_cast<float*>(span.parameter), static_cast<const float16*>(span.gradient));
  else
    body(static_cast<float*>(span.parameter), static_cast<const float*>(span.gradient));
}

/// A step's constants, computed in f64, in the parameter's type.
template <class T, template <class> class Step>
TESSERA_ELEMENT Step<T> rounded(const Step<double>& step) {
  constexpr int count = sizeof(Step<double>) / sizeof(double);
  static_assert(sizeof(Step<T>) == count * sizeof(T));
  struct From {
    double values[count];
  };
  struct To {
    T values[count];
  };
  const From from = __builtin_bit_cast(From, step);
  To to;
  for (int i = 0; i < count; ++i) to.values[i] = static_cast<T>(from.values[i]);
  return __builtin_bit_cast(Step<T>, to);
}

/// Element i of a state, or `unused` where the variant does not have the state.
template <bool present, class T>
TESSERA_ELEMENT T& state_element(T* state, int64_t i, T& unused) {
  if constexpr (present)
    return state[i];
  else
    return unused;
}

template <class Rule, unsigned variant, int... k, class T, class G, class... State>
void update_loop(std::integer_sequence<int, k...>, const typename Rule::template Step<T> step, const T clip,
                 int64_t n, T* __restrict p, const G* __restrict g, State* __restrict... state) {
  for (int64_t i = 0; i < n; ++i) {
    T unused;
    elementwise::apply<variant>(step, p[i], widen<T>(g[i]) * clip,
                                state_element<elementwise::has_state<Rule>(variant, k)>(state, i, unused)...);
  }
}

/// The loop of the variant that equals `chosen`, of all that the rule has.
template <class Rule, class T, class G, unsigned... variant, int... k>
[[gnu::always_inline]] inline void choose_loop(unsigned chosen, std::integer_sequence<unsigned, variant...>,
                                               std::integer_sequence<int, k...> states,
                                               const typename Rule::template Step<T>& step, T clip, T* p,
                                               const G* g, const UpdateSpan& span) {
  ((chosen == variant
        ? update_loop<Rule, variant>(states, step, clip, span.n, p, g, static_cast<T*>(span.state[k])...)
        : void()),
   ...);
}

}  // namespace

template <class Rule>
void update(const UpdateSpan& span, const typename Rule::template Step<double>& step, double clip,
            unsigned variant) {
  constexpr int states = sizeof(Rule::states) / sizeof(elementwise::UpdateState);
  with_types(span, [&]<class T, class G>(T* p, const G* g) {
    choose_loop<Rule>(variant, std::make_integer_sequence<unsigned, Rule::variants>(),
                      std::make_integer_sequence<int, states>(), rounded<T, Rule::template Step>(step),
                      static_cast<T>(clip), p, g, span);
  });
}

#define TESSERA_INSTANTIATE(Rule)                                                                            \
  template void update<elementwise::Rule>(const UpdateSpan&, const elementwise::Rule::Step<double>&, double, \
                                          unsigned);
TESSERA_UPDATE_RULES(TESSERA_INSTANTIATE)
#undef TESSERA_INSTANTIATE

}  // namespace tessera::kernels::cpu::TESSERA_ISA

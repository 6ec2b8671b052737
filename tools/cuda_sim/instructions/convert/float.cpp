// cvt to f32 and f64.
#include <cmath>

#include "tools/cuda_sim/instructions/convert/convert.h"
#include "tools/cuda_sim/instructions/convert/registers.h"
#include "tools/cuda_sim/instructions/half/formats.h"
#include "tools/cuda_sim/instructions/rounding.h"

namespace tessera::cuda_sim::conversion {

namespace {

struct Modifiers {
  Integral integral = Integral::none;
  bool flushes = false, saturates = false;
};

template <Modifiers m, class D, class S>
D finish(S a) {
  if constexpr (m.flushes && sizeof(S) == 4 && std::is_floating_point_v<S>) a = flush(a);
  if constexpr (m.integral == Integral::nearest) a = std::nearbyint(a);
  if constexpr (m.integral == Integral::zero) a = std::trunc(a);
  if constexpr (m.integral == Integral::down) a = std::floor(a);
  if constexpr (m.integral == Integral::up) a = std::ceil(a);
  D d = static_cast<D>(a);
  if constexpr (m.flushes && sizeof(D) == 4) d = flush(d);
  return m.saturates ? saturate(d) : d;
}

template <class D, class S, Modifiers m>
constexpr auto from_number = [](S a) { return finish<m, D>(a); };
template <class D, class Format, Modifiers m>
constexpr auto from_half = [](uint16_t a) { return finish<m, D>(Format::to_float(a)); };

/// In the rounding mode flags[0].
template <Execute inner>
void rounded(Warp& warp, const Instruction& instruction) {
  const RoundingScope scope(static_cast<Rounding>(instruction.flags[0]));
  inner(warp, instruction);
}

/// make.operator()<modifiers>() for the modifiers of an instruction.
template <class Make>
Execute for_modifiers(const DecodeContext& context, Make make) {
  const bool flushes = context.has("ftz"), saturates = context.has("sat");
  const auto with_flags = [&]<Integral integral>() -> Execute {
    if (flushes)
      return saturates ? make.template operator()<Modifiers{integral, true, true}>()
                       : make.template operator()<Modifiers{integral, true, false}>();
    return saturates ? make.template operator()<Modifiers{integral, false, true}>()
                     : make.template operator()<Modifiers{integral, false, false}>();
  };
  switch (integral_rounding(context)) {
    case Integral::nearest:
      return with_flags.template operator()<Integral::nearest>();
    case Integral::zero:
      return with_flags.template operator()<Integral::zero>();
    case Integral::down:
      return with_flags.template operator()<Integral::down>();
    case Integral::up:
      return with_flags.template operator()<Integral::up>();
    default:
      return with_flags.template operator()<Integral::none>();
  }
}

template <class D>
Execute choose(const DecodeContext& context, Type from) {
  const bool is_directed = rounding_of(context) != Rounding::nearest;
  if (is_integer(from)) {
    const bool saturates = context.has("sat");
    return for_any_integer(from, [=]<class S>(S) -> Execute {
      constexpr Execute plain = convert<D, S, from_number<D, S, Modifiers{}>>;
      constexpr Execute clamped = convert<D, S, from_number<D, S, Modifiers{Integral::none, false, true}>>;
      return is_directed ? (saturates ? rounded<clamped> : rounded<plain>) : (saturates ? clamped : plain);
    });
  }
  return for_modifiers(context, [=]<Modifiers m>() -> Execute {
    switch (from) {
      case Type::f32:
        return convert<D, float, from_number<D, float, m>>;
      case Type::f64:
        return is_directed ? rounded<convert<D, double, from_number<D, double, m>>>
                           : convert<D, double, from_number<D, double, m>>;
      case Type::f16:
        return convert<D, uint16_t, from_half<D, Half, m>>;
      case Type::bf16:
        return convert<D, uint16_t, from_half<D, BFloat, m>>;
      default:
        return nullptr;
    }
  });
}

}  // namespace

Execute to_float(const DecodeContext& context, Type to, Type from) {
  return to == Type::f32 ? choose<float>(context, from) : choose<double>(context, from);
}

}  // namespace tessera::cuda_sim::conversion

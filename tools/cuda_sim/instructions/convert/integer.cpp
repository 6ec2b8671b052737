// cvt to integers.
#include <cmath>
#include <limits>

#include "tools/cuda_sim/instructions/convert/convert.h"
#include "tools/cuda_sim/instructions/convert/registers.h"
#include "tools/cuda_sim/instructions/half/formats.h"
#include "tools/cuda_sim/instructions/rounding.h"

namespace tessera::cuda_sim::conversion {

namespace {

template <class D, class S, bool saturates>
constexpr auto convert_integer = [](S a) {
  if constexpr (saturates) {
    // Compared in the wider of both types; a negative number is below every unsigned one.
    if constexpr (std::is_signed_v<S> && !std::is_signed_v<D>) {
      if (a < 0) return D{0};
      return static_cast<uint64_t>(a) > std::numeric_limits<D>::max() ? std::numeric_limits<D>::max()
                                                                      : static_cast<D>(a);
    } else if constexpr (!std::is_signed_v<S>) {
      constexpr auto greatest = static_cast<uint64_t>(std::numeric_limits<D>::max());
      return a > greatest ? std::numeric_limits<D>::max() : static_cast<D>(a);
    } else {
      if (int64_t{a} < std::numeric_limits<D>::min()) return std::numeric_limits<D>::min();
      return int64_t{a} > std::numeric_limits<D>::max() ? std::numeric_limits<D>::max() : static_cast<D>(a);
    }
  } else {
    return static_cast<D>(a);
  }
};

template <Integral rounding, class T>
T round_to_integral(T x) {
  if constexpr (rounding == Integral::nearest) return std::nearbyint(x);
  if constexpr (rounding == Integral::down) return std::floor(x);
  if constexpr (rounding == Integral::up) return std::ceil(x);
  return std::trunc(x);
}

/// "NaN input results in: zero if source is not .f64 and destination is not .s64, .u64; otherwise
/// 1 << (BitWidth(dst) - 1)". Out of range: the nearest bound.
template <class D, bool from_f64, Integral rounding>
D clamp_to_integer(double x) {
  constexpr bool is_wide = sizeof(D) == 8;
  constexpr D of_nan = from_f64 || is_wide ? static_cast<D>(uint64_t{1} << (8 * sizeof(D) - 1)) : D{0};
  const double whole = round_to_integral<rounding>(x);
  constexpr auto least = static_cast<double>(std::numeric_limits<D>::min());
  if constexpr (is_wide) {
    constexpr double beyond = std::is_signed_v<D> ? 0x1p63 : 0x1p64;
    if (x != x) return of_nan;
    if (whole < least) return std::numeric_limits<D>::min();
    return whole >= beyond ? std::numeric_limits<D>::max() : static_cast<D>(whole);
  } else {
    constexpr auto greatest = static_cast<double>(std::numeric_limits<D>::max());
    const double bounded = whole > least ? (whole < greatest ? whole : greatest) : least;  // NaN: least
    using Wide = std::conditional_t<std::is_same_v<D, uint32_t>, int64_t, int32_t>;
    const auto value = static_cast<D>(static_cast<Wide>(bounded));
    return x == x ? value : of_nan;
  }
}

template <class D, class S, Integral rounding, bool flushes>
constexpr auto from_float = [](S a) {
  if constexpr (flushes && sizeof(S) == 4) a = flush(a);
  return clamp_to_integer<D, sizeof(S) == 8, rounding>(a);
};
template <class D, class Format, Integral rounding>
constexpr auto from_half =
    [](uint16_t a) { return clamp_to_integer<D, false, rounding>(Format::to_float(a)); };

template <class D, Integral rounding>
Execute choose_source(Type from, bool flushes) {
  switch (from) {
    case Type::f32:
      return flushes ? convert<D, float, from_float<D, float, rounding, true>>
                     : convert<D, float, from_float<D, float, rounding, false>>;
    case Type::f64:
      return convert<D, double, from_float<D, double, rounding, false>>;
    case Type::f16:
      return convert<D, uint16_t, from_half<D, Half, rounding>>;
    case Type::bf16:
      return convert<D, uint16_t, from_half<D, BFloat, rounding>>;
    default:
      return nullptr;
  }
}

}  // namespace

Integral integral_rounding(const DecodeContext& context) {
  return context.has("rni")   ? Integral::nearest
         : context.has("rzi") ? Integral::zero
         : context.has("rmi") ? Integral::down
         : context.has("rpi") ? Integral::up
                              : Integral::none;
}

Execute between_integers(Type to, Type from, bool saturates) {
  return for_any_integer(to, [=]<class D>(D) -> Execute {
    return for_any_integer(from, [=]<class S>(S) -> Execute {
      return saturates ? convert<D, S, convert_integer<D, S, true>>
                       : convert<D, S, convert_integer<D, S, false>>;
    });
  });
}

Execute to_integer(Type to, Type from, Integral rounding, bool flushes) {
  return for_any_integer(to, [=]<class D>(D) -> Execute {
    switch (rounding) {
      case Integral::nearest:
        return choose_source<D, Integral::nearest>(from, flushes);
      case Integral::zero:
        return choose_source<D, Integral::zero>(from, flushes);
      case Integral::down:
        return choose_source<D, Integral::down>(from, flushes);
      case Integral::up:
        return choose_source<D, Integral::up>(from, flushes);
      default:
        return nullptr;  // the rounding must be written
    }
  });
}

}  // namespace tessera::cuda_sim::conversion

#include "optim/first_nonfinite.h"

#include <limits>

#include "tensor/error.h"

namespace tessera::optim {

std::string to_string(const NonFiniteGradient& fault) {
  std::string where = text("'", fault.parameter, "'");
  if (fault.rank) where += text(" on rank ", *fault.rank);
  if (fault.step) where += text(" in step ", *fault.step);
  return where;
}

std::optional<NonFiniteGradient> first_nonfinite_gradient(const ParameterList& parameters, int64_t local) {
  if (!parameters.reducer()) {
    if (local < 0) return std::nullopt;
    return NonFiniteGradient{parameters[static_cast<size_t>(local)].name, std::nullopt, std::nullopt};
  }
  // The smallest index and the smallest rank, found as maxima of values that decrease with them. Without a
  // fault, which is nearly every step, one maximum is enough.
  ParameterReducer& ranks = *parameters.reducer();
  constexpr double no_rank = std::numeric_limits<double>::lowest();
  if (!ranks.lists_are_equal()) {
    const double found = ranks.largest(local < 0 ? no_rank : -ranks.rank());
    if (found == no_rank) return std::nullopt;
    const bool is_here = local >= 0 && -found == ranks.rank();
    return NonFiniteGradient{is_here ? parameters[static_cast<size_t>(local)].name : "a parameter of a stage",
                             static_cast<int>(-found), std::nullopt};
  }
  const auto count = static_cast<double>(parameters.size());
  const double from_end = ranks.largest(local < 0 ? 0.0 : count - static_cast<double>(local));
  if (from_end == 0.0) return std::nullopt;
  const auto first = static_cast<int64_t>(count - from_end);
  const double rank = -ranks.largest(local == first ? -ranks.rank() : no_rank);
  return NonFiniteGradient{parameters[static_cast<size_t>(first)].name, static_cast<int>(rank), std::nullopt};
}

}  // namespace tessera::optim

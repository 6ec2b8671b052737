#include "optim/first_fault.h"

#include <limits>

#include "tensor/error.h"

namespace tessera::optim {

std::string to_string(const GradientFault& fault) {
  std::string where = text("'", fault.parameter, "'");
  if (fault.rank) where += text(" on rank ", *fault.rank);
  if (fault.step) where += text(" in step ", *fault.step);
  return where;
}

std::optional<GradientFault> first_fault(const ParameterList& parameters, int64_t mine) {
  if (!parameters.reducer()) {
    if (mine < 0) return std::nullopt;
    return GradientFault{parameters[static_cast<size_t>(mine)].name, std::nullopt, std::nullopt};
  }
  // The smallest index and the smallest rank, asked for as the largest of what decreases with them. Without a
  // fault, which is nearly every step, one question is enough.
  ParameterReducer& ranks = *parameters.reducer();
  const auto count = static_cast<double>(parameters.size());
  const double closest = ranks.largest(mine < 0 ? 0.0 : count - static_cast<double>(mine));
  if (closest == 0.0) return std::nullopt;
  const auto first = static_cast<int64_t>(count - closest);
  constexpr double nobody = std::numeric_limits<double>::lowest();
  const double rank = -ranks.largest(mine == first ? -ranks.rank() : nobody);
  return GradientFault{parameters[static_cast<size_t>(first)].name, static_cast<int>(rank), std::nullopt};
}

}  // namespace tessera::optim

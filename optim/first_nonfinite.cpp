#include "optim/first_nonfinite.h"

#include <limits>
#include <string_view>

#include "tensor/error.h"

namespace tessera::optim {

namespace {

/// The text of the one rank that has one (`own`), on every rank: six bytes at a time are a whole number that
/// a double holds, and a maximum over the ranks passes it on.
std::string shared_text(ParameterReducer& ranks, std::string_view own) {
  constexpr size_t width = 6;
  const auto size = static_cast<size_t>(ranks.largest(static_cast<double>(own.size())));
  std::string all;
  for (size_t first = 0; first < size; first += width) {
    uint64_t part = 0;
    for (size_t i = 0; i < width; ++i)
      part = part << 8 | (first + i < own.size() ? static_cast<unsigned char>(own[first + i]) : 0);
    part = static_cast<uint64_t>(ranks.largest(static_cast<double>(part)));
    for (size_t i = width; i-- > 0;) all += static_cast<char>(part >> (8 * i) & 0xff);
  }
  all.resize(size);
  return all;
}

}  // namespace

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
    const std::string name =
        shared_text(ranks, is_here ? parameters[static_cast<size_t>(local)].name : std::string());
    return NonFiniteGradient{name, static_cast<int>(-found), std::nullopt};
  }
  const auto count = static_cast<double>(parameters.size());
  const double from_end = ranks.largest(local < 0 ? 0.0 : count - static_cast<double>(local));
  if (from_end == 0.0) return std::nullopt;
  const auto first = static_cast<int64_t>(count - from_end);
  const double rank = -ranks.largest(local == first ? -ranks.rank() : no_rank);
  return NonFiniteGradient{parameters[static_cast<size_t>(first)].name, static_cast<int>(rank), std::nullopt};
}

}  // namespace tessera::optim

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera::tools {

/// How many letters must be put in, taken out, changed or swapped with a neighbour to make `b` of `a`
/// (optimal string alignment distance).
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to a misspelt word, or "" when none is near: at most one edit for every three
/// letters. The first of equals wins.
std::string closest(std::string_view word, std::span<const std::string> candidates);

}  // namespace tessera::tools

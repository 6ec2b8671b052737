#pragma once  // internal

#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// The number of insertions, deletions, changes and swaps of neighbouring letters that turn `a` into `b`
/// (optimal string alignment distance).
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to a misspelt name, or "" where none is near: at most one edit for every three
/// letters. Of equally near ones, the first.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace tessera

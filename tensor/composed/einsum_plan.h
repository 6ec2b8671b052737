#pragma once  // internal

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.h"

namespace tessera {

/// What the equation of `einsum` means for operands of given shapes: a name, one character, for each
/// dimension. The dimensions of "..." have the names 1, 2, ..., counted from the last one.
struct EinsumPlan {
  std::vector<std::string> inputs;  ///< the names of each operand's dimensions
  std::string output;               ///< those of the result
  std::map<char, int64_t> extents;  ///< of each name

  /// The extent of `name`, which occurs.
  int64_t extent(char name) const { return extents.at(name); }
};

/// Throws as `einsum`.
EinsumPlan plan_einsum(std::string_view equation, std::span<const Shape> shapes);

/// The names of two operands by what a product of matrices does with them.
struct EinsumNames {
  std::string batch;    ///< both have them, and they are kept
  std::string inner;    ///< both have them, and they are summed over
  std::string rows;     ///< the first has them alone
  std::string columns;  ///< the second has them alone
};

/// Names that neither operand shares are kept.
EinsumNames sort_names(const std::string& a, const std::string& b, const std::string& kept);

/// The positions, in order, of the two operands (at least two) that are multiplied next: the first pair with
/// the fewest multiplications. This is the greedy order, which looks one product ahead.
struct EinsumPair {
  size_t first;   ///< below `second`
  size_t second;  ///< the other one
};
EinsumPair cheapest_pair(const EinsumPlan& plan, const std::vector<std::string>& names);

}  // namespace tessera

#include "tensor/nearest_name.h"

#include <algorithm>
#include <vector>

namespace tessera {

int edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table for the current character of `a` and the two before it.
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  const auto letters = std::count_if(name.begin(), name.end(), [](char c) { return c != '-'; });
  int best = static_cast<int>(letters + 2) / 3;
  const std::string* found = nullptr;
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(name, candidate);
    if (distance < best || (found == nullptr && distance == best)) {
      best = distance;
      found = &candidate;
    }
  }
  return found == nullptr ? "" : *found;
}

}  // namespace tessera

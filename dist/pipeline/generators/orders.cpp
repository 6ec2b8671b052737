#include "dist/pipeline/generators/orders.h"

#include <algorithm>

namespace tessera::dist {
namespace {

using enum ActionKind;

/// One forward, one backward: `warm_up` forwards, then a forward and a backward in turn, then what is left.
ActionOrder alternate(const ActionOrder& forwards, const ActionOrder& backwards, int warm_up) {
  const size_t ahead = std::min(static_cast<size_t>(warm_up), forwards.size());
  ActionOrder order(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(ahead));
  for (size_t i = ahead; i < forwards.size(); ++i) {
    order.push_back(forwards[i]);
    order.push_back(backwards[i - ahead]);
  }
  order.insert(order.end(), backwards.end() - static_cast<std::ptrdiff_t>(ahead), backwards.end());
  return order;
}

/// The micro-batches 0 to M - 1 of one stage.
ActionOrder all_of(ActionKind kind, int stage, int M) {
  ActionOrder actions;
  for (int m = 0; m < M; ++m) actions.push_back({kind, stage, m});
  return actions;
}

}  // namespace

ActionOrder gpipe_order(int S, int M, int rank) {
  return breadth_first_order(S, M, 1, rank);
}

ActionOrder one_f_one_b_order(int S, int M, int rank) {
  return alternate(all_of(forward, rank, M), all_of(backward, rank, M), S - rank - 1);
}

std::vector<int> even_groups(int S, int M) {
  const int count = std::max(1, M / S);
  std::vector<int> groups(static_cast<size_t>(count), M / count);
  for (int i = 0; i < M % count; ++i) ++groups[static_cast<size_t>(i)];
  return groups;
}

ActionOrder interleaved_order(int S, int M, int v, const std::vector<int>& groups, int rank) {
  ActionOrder forwards, backwards;
  int first = 0;
  for (const int group : groups) {
    for (int chunk = 0; chunk < v; ++chunk)
      for (int m = first; m < first + group; ++m) {
        forwards.push_back({forward, chunk * S + rank, m});
        backwards.push_back({backward, (v - 1 - chunk) * S + rank, m});
      }
    first += group;
  }
  const int largest = *std::max_element(groups.begin(), groups.end());
  ActionOrder order = alternate(forwards, backwards, 2 * (S - rank - 1) + (v - 1) * largest);
  std::erase_if(order, [M](const PipelineAction& action) { return action.micro_batch >= M; });
  return order;
}

ActionOrder breadth_first_order(int S, int M, int v, int rank) {
  ActionOrder order;
  for (int chunk = 0; chunk < v; ++chunk)
    for (int m = 0; m < M; ++m) order.push_back({forward, chunk * S + rank, m});
  for (int chunk = v - 1; chunk >= 0; --chunk)
    for (int m = 0; m < M; ++m) order.push_back({backward, chunk * S + rank, m});
  return order;
}

}  // namespace tessera::dist

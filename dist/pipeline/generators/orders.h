#pragma once  // internal

#include <vector>

#include "dist/pipeline/schedule/action.h"

/// The order of a rank's actions in each schedule. S: ranks, M: micro-batches, v: chunks of each rank.
namespace tessera::dist {

using ActionOrder = std::vector<PipelineAction>;

ActionOrder gpipe_order(int S, int M, int rank);
ActionOrder one_f_one_b_order(int S, int M, int rank);
/// M micro-batches in max(1, M / S) groups that differ by one at most, the larger ones first. None is smaller
/// than S where M is not, so that every chunk of a group is ready in time.
std::vector<int> even_groups(int S, int M);
/// The groups may hold more than M micro-batches: those above M are left out of the order. (A last group of
/// less than S would need a longer warm-up than the others: with theirs, the ranks can wait for each other in
/// a cycle.)
ActionOrder interleaved_order(int S, int M, int v, const std::vector<int>& groups, int rank);
ActionOrder breadth_first_order(int S, int M, int v, int rank);
ActionOrder zb_h1_order(int S, int M, int rank);
ActionOrder zb_v_order(int S, int M, int rank);

}  // namespace tessera::dist

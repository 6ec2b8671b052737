// Schedules that split the backward (Qi, Wan, Huang and Lin 2023, "Zero Bubble Pipeline Parallelism"). No
// other stage waits for the gradients of a stage's weights, so they can fill the time in which a rank would
// wait.

#include <algorithm>

#include "dist/pipeline/generators/orders.h"

namespace tessera::dist {
namespace {

using enum ActionKind;

/// The actions of one stage: each call appends the next micro-batch's.
struct StageActions {
  ActionOrder& order;
  int stage;
  int forwards = 0, inputs = 0, weights = 0;

  void f() { order.push_back({forward, stage, forwards++}); }
  void i() { order.push_back({backward_input, stage, inputs++}); }
  void w() { order.push_back({backward_weight, stage, weights++}); }
};

}  // namespace

// The warm-up of 1F1B. The last rank starts its weight gradients S - 1 micro-batches late, the first at once:
// all hold at most S micro-batches, as the first rank of 1F1B does.
ActionOrder zb_h1_order(int S, int M, int rank) {
  ActionOrder order;
  StageActions stage{order, rank};
  const int warm_up = std::min(S - rank - 1, M);
  for (int i = 0; i < warm_up; ++i) stage.f();
  while (stage.inputs < M) {
    if (stage.forwards < M) stage.f();
    stage.i();
    if (stage.inputs > rank) stage.w();
  }
  while (stage.weights < M) stage.w();
  return order;
}

// Section 6 of the paper. Stage `rank` and stage 2S - 1 - rank are on one rank, so the first rank has the
// loss, and its backward starts as soon as the first micro-batch has passed twice through the ranks. The
// order is that of at least 2S - 1 micro-batches; those above M are left out.
ActionOrder zb_v_order(int S, int M, int rank) {
  const int full = std::max(2 * S - 1, M);
  ActionOrder order;
  StageActions down{order, rank}, up{order, 2 * S - 1 - rank};
  for (int i = 0; i < 2 * (S - rank) - 1; ++i) down.f();
  for (int i = 0; i < rank; ++i) up.f(), down.f();
  for (int i = 0; i < S - rank; ++i) up.f(), up.i(), up.w();
  while (up.forwards < down.forwards || down.forwards < full) {
    if (down.forwards < full) down.f();
    down.i(), down.w();
    up.f(), up.i(), up.w();
  }
  for (int i = 0; i < rank; ++i) down.i(), up.i();
  for (int i = 0; i < S - rank; ++i) down.i(), down.w();
  while (up.weights < up.inputs) up.w();
  while (down.weights < down.inputs) down.w();
  std::erase_if(order, [M](const PipelineAction& action) { return action.micro_batch >= M; });
  return order;
}

}  // namespace tessera::dist

#include <doctest/doctest.h>

#include <set>

#include "nn/layers/linear.h"
#include "nn/layers/normalization.h"
#include "nn/loss.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/adam.h"
#include "tensor/profile/cost.h"
#include "tensor/profile/op_table.h"

using namespace tessera;

namespace {

struct Layered : nn::Layer<Layered> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 6, .out = 8});
  nn::LayerNorm& norm = add<nn::LayerNorm>("norm", 8);
  nn::Linear& second = add<nn::Linear>("second", {.in = 8, .out = 3});
  Variable forward(const Variable& x) { return second(norm(first(x))); }
};

/// The rows of a profiler after one training step.
std::vector<Profiler::Row> profiled_step(Cost& cost) {
  Layered model;
  nn::materialize(model, cpu(), 1);
  optim::AdamW adam(model.parameters(), {});
  const Tensor x = Tensor::zeros({4, 6}, f32), targets = Tensor::zeros({4}, i64);
  Profiler profiler;
  const ProfilerScope recording(profiler);
  const CostScope counting(cost);
  const SpanScope step(SpanKind::step, "step", 1);
  const Variable loss = nn::cross_entropy(model(x), targets);
  loss.backward();
  optim::clip_grad_norm(model.parameters(), 1e-3);
  adam.step();
  return profiler.rows();
}

}  // namespace

TEST_CASE(
    "a profiled step: kernels have their phase and module, in backward too, and account for all FLOPs") {
  Cost cost;
  const auto rows = profiled_step(cost);
  REQUIRE(rows.size() == 1);
  std::set<std::string> phases, forward_modules, backward_modules, rules;
  int64_t flops = 0;
  for (const Span& span : rows[0].spans) {
    if (span.kind == SpanKind::phase) phases.insert(span.name);
    if (span.kind == SpanKind::rule) rules.insert(span.name);
    if (span.kind != SpanKind::kernel) continue;
    flops += span.flops;
    if (span.module && span.phase == nullptr) forward_modules.insert(span.module);
    if (span.module && span.phase && span.phase == std::string("backward"))
      backward_modules.insert(span.module);
    if (span.name == std::string("matmul")) CHECK(span.flops > 0);
  }
  CHECK(phases == std::set<std::string>{"backward", "clip", "optimizer"});
  CHECK(flops == cost.flops);
  for (const char* module : {"first", "norm", "second"}) {
    CHECK_MESSAGE(forward_modules.contains(module), module);
    CHECK_MESSAGE(backward_modules.contains(module), module);
  }
  for (const char* rule : {"linear", "layer_norm", "cross_entropy"})
    CHECK_MESSAGE(rules.contains(rule), rule);
}

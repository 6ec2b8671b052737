#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/fsdp/policy.h"
#include "nn/layer.h"

/// Tiny models, each with one thing that sharding must get right. Legend: B batch, C width (6), T time (2).
namespace tessera::test {

inline constexpr int64_t parity_width = 6;

/// What a rank computes on: x (B, C), ids (B, T), and what the result is to be, (B, C).
struct ParityBatch {
  Tensor x, ids, target;
};

struct ParityModel : nn::Layer<ParityModel> {
  /// (B, C) to (B, C). `step` counts the optimizer's steps: a model may take another path in some.
  virtual Variable forward(const Variable& x, const Tensor& ids, int64_t step) = 0;
};

struct ModelMaker {
  std::function<std::unique_ptr<ParityModel>()> make;
  dist::UnitPolicy units;
};

/// Three units in a row and parameters of the root's own before and after them; sizes that no rank count
/// divides.
ModelMaker plain_model();
/// The first and the last unit have one weight together, which so belongs to the root.
ModelMaker shared_model();
/// One unit frozen whole, of another the biases, of the root one parameter.
ModelMaker frozen_model();
/// Units inside units, each with parameters of its own, three deep.
ModelMaker nested_model();
/// Units of one and of two elements, fewer than ranks.
ModelMaker uneven_model();
/// The middle unit takes part in every other step only.
ModelMaker skipped_model();
/// The middle unit runs twice in each forward.
ModelMaker twice_model();
/// A unit and the root each have a parameter that no result depends on.
ModelMaker unused_model();
/// Two units on two branches of the same input, a third on their sum.
ModelMaker branched_model();
/// A unit of two results, of which every other forward uses both and the others one.
ModelMaker partial_model();
/// A transformer of two blocks with a tied head.
ModelMaker gpt_model();

}  // namespace tessera::test

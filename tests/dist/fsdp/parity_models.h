#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/fsdp/policy.h"
#include "nn/layer.h"

/// Tiny models, each for one case of sharding. Legend: B batch, C width (6), T time (2).
namespace tessera::test {

inline constexpr int64_t parity_width = 6;

/// The input of a rank: x (B, C), ids (B, T), and the target of the result, (B, C).
struct ParityBatch {
  Tensor x, ids, target;
};

struct ParityModel : nn::Layer<ParityModel> {
  /// (B, C) to (B, C). `step` counts the optimizer's steps: a model may take another branch in some.
  virtual Variable forward(const Variable& x, const Tensor& ids, int64_t step) = 0;
};

struct ModelMaker {
  std::function<std::unique_ptr<ParityModel>()> make;
  dist::UnitPolicy units;
};

/// Three units in a row, with parameters of the root before and after them; sizes that no number of ranks
/// divides.
ModelMaker plain_model();
/// The first and the last unit share a weight, which therefore belongs to the root.
ModelMaker shared_model();
/// Frozen: one unit, the biases of another, one parameter of the root.
ModelMaker frozen_model();
/// Units inside units, three levels deep, each with parameters of its own.
ModelMaker nested_model();
/// Units of one and of two elements, fewer than there are ranks.
ModelMaker uneven_model();
/// The middle unit runs in every other step only.
ModelMaker skipped_model();
/// The middle unit runs twice in each forward.
ModelMaker twice_model();
/// A unit and the root each have a parameter that no result depends on.
ModelMaker unused_model();
/// Two units on two branches of the same input, a third on their sum.
ModelMaker branched_model();
/// A unit with two results; forwards use both and one in turn.
ModelMaker partial_model();
/// A transformer of two blocks with a tied head.
ModelMaker gpt_model();
/// Two LSTMs, one of them in both directions, on sequences of two steps; each a unit, which with
/// `checkpointed` runs again in backward.
ModelMaker lstm_model(bool checkpointed);
/// Two convolutions with a group norm between them, and two heads with one product of their results; the
/// convolutions are a unit, which with `frozen_backbone` does not train.
ModelMaker convolution_model(bool frozen_backbone);
/// An encoder classifier of two layers; with `checkpointed` its layers run again in backward.
ModelMaker encoder_model(bool checkpointed);

/// Three layers, each a unit: with weight norm, with spectral norm, and checkpointed with both.
ModelMaker normed_model();

}  // namespace tessera::test

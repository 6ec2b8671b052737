#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dist/checkpoint/rank_pieces.h"
#include "dist/checkpoint/rank_save.h"
#include "dist/launch/launch.h"
#include "optim/adam.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"

/// Runs `body(world)` on ranks that are threads of this process.
template <class Body>
void run_ranks(int ranks, const Body& body) {
  tessera::dist::launch(body, {.virtual_ranks = ranks, .timeout = std::chrono::seconds(60)});
}

/// A world of shards times replicas: rank = replica * shards + shard. `shards` of 0: whole parameters on all
/// `replicas` ranks.
struct Cut {
  int shards = 1, replicas = 1;
  int size() const { return std::max(shards, 1) * replicas; }
};
inline std::string to_string(const Cut& cut) {
  return tessera::text(cut.shards, " shards x ", cut.replicas, " replicas");
}

/// What one rank of a small training run holds: its part of each parameter, Adam's state of it, and buffers.
/// Element i of parameter p has a gradient that depends on p, i and the step alone, so every cut of the run
/// has the same numbers.
class RankState {
 public:
  RankState(const Cut& cut, int rank) : cut_(cut), rank_(rank), list_(parts(cut, rank)) {
    adam_ = std::make_unique<tessera::optim::AdamW>(
        list_, tessera::optim::AdamWOptions{.lr = 0.05, .weight_decay = 0.1});
    buffers_ = {{"count", tessera::Tensor::scalar<int64_t>(0)},
                {"mean", tessera::Tensor::zeros({2, 3}, tessera::f32)}};
  }

  void train(int64_t first_step, int64_t steps) {
    for (int64_t t = first_step; t < first_step + steps; ++t) {
      for (size_t p = 0; p < list_.size(); ++p) set_gradient(p, t);
      adam_->step();
      ++*buffers_[0].tensor.data<int64_t>();
      for (int64_t i = 0; i < 6; ++i) buffers_[1].tensor.data<float>()[i] += static_cast<float>(i + t);
    }
  }

  tessera::dist::Holding holding() const {
    return {.shards = {cut_.replicas, rank_ / std::max(cut_.shards, 1)}, .wholes = {cut_.size(), rank_}};
  }
  std::vector<tessera::dist::PieceGroup> groups() const {
    return {tessera::dist::model_pieces(list_, buffers_, holding()),
            tessera::dist::optimizer_pieces(list_, adam_->state(), holding())};
  }
  const tessera::ParameterList& parameters() const { return list_; }

 private:
  struct Named {
    const char* name;
    tessera::Shape shape;
    tessera::DType dtype;
  };
  /// One parameter without elements, one with fewer than there are ranks, two dtypes.
  static const std::vector<Named>& model() {
    static const std::vector<Named> all{{"fc.weight", {7, 5}, tessera::f32},
                                        {"fc.bias", {3}, tessera::f32},
                                        {"none", {0, 4}, tessera::f32},
                                        {"scale", {}, tessera::f64},
                                        {"out.weight", {4, 11}, tessera::f64}};
    return all;
  }
  /// All parameters end to end, cut into equal shards, the last ones short or empty.
  static tessera::ParameterList parts(const Cut& cut, int rank) {
    using namespace tessera;
    int64_t total = 0, position = 0;
    for (const Named& p : model()) total += p.shape.numel();
    const int shards = std::max(cut.shards, 1);
    const int64_t length = (total + shards - 1) / shards, begin = rank % shards * length;
    ParameterList list;
    for (const Named& p : model()) {
      const int64_t n = p.shape.numel();
      const int64_t first = std::clamp<int64_t>(begin - position, 0, n);
      const int64_t last = std::clamp<int64_t>(begin + length - position, 0, n);
      position += n;
      if (cut.shards == 0)
        list.push_back({p.name, Variable::parameter(Tensor::zeros(p.shape, p.dtype))});
      else
        list.push_back({p.name,
                        Variable::parameter(Tensor::zeros({last - first}, p.dtype)),
                        {},
                        ShardOf{p.shape, first}});
    }
    return list;
  }
  void set_gradient(size_t p, int64_t step) {
    using namespace tessera;
    const NamedParameter& parameter = list_[p];
    const Tensor gradient = Tensor::empty(parameter.variable.shape(), parameter.variable.dtype());
    const int64_t first = parameter.shard ? parameter.shard->first : 0;
    for (int64_t i = 0; i < gradient.numel(); ++i) {
      const double g =
          static_cast<double>((37 * (first + i) + 11 * step + 5 * static_cast<int64_t>(p)) % 19 - 9) / 8;
      if (gradient.dtype() == f32)
        gradient.data<float>()[i] = static_cast<float>(g);
      else
        gradient.data<double>()[i] = g;
    }
    parameter.variable.set_grad(Variable(gradient));
  }

  Cut cut_;
  int rank_;
  tessera::ParameterList list_;
  std::unique_ptr<tessera::optim::AdamW> adam_;
  std::vector<tessera::NamedTensor> buffers_;
};

/// Whether the pieces hold the numbers that the whole, undistributed run has at their places.
inline bool agrees_with(const std::vector<tessera::dist::PieceGroup>& pieces, const RankState& whole) {
  using namespace tessera;
  const std::vector<dist::PieceGroup> expected = whole.groups();
  for (size_t g = 0; g < pieces.size(); ++g)
    for (size_t i = 0; i < pieces[g].pieces.size(); ++i) {
      const dist::TensorPiece& piece = pieces[g].pieces[i];
      const Tensor numbers = expected[pieces[g].name == "model" ? 0 : 1].pieces[i].tensor;
      const Tensor all = numbers.view({numbers.numel()});
      const Tensor part = all.narrow(0, piece.piece.begin, piece.piece.numel());
      if (!same_bits(piece.tensor.view({piece.tensor.numel()}), part)) return false;
    }
  return true;
}

/// The checkpoint that the ranks of a cut write after `steps`, one after another.
inline std::string save_in_turn(const std::string& root, const Cut& cut, int64_t steps) {
  using namespace tessera::dist;
  CheckpointWriter writer(root, steps);
  std::vector<std::string> texts;
  for (int rank = 0; rank < cut.size(); ++rank) {
    RankState state(cut, rank);
    state.train(0, steps);
    texts.push_back(to_text(write_files(writer.folder(), rank, cut.size(), groups_to_write(state.groups()))));
  }
  return publish(writer, texts, state_at(steps), {});
}

#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dist/checkpoint/rank_save.h"
#include "dist/checkpoint/rank_shards.h"
#include "dist/launch/launch.h"
#include "optim/rules/adam.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"

/// Runs `body(world)` on ranks that are threads of this process.
template <class Body>
void run_ranks(int ranks, const Body& body) {
  tessera::dist::launch(body, {.virtual_ranks = ranks, .timeout = std::chrono::seconds(60)});
}

/// A world of shards times replicas: rank = replica * shards + shard. With `shards` 0, all `replicas` ranks
/// have full parameters.
struct RankLayout {
  int shards = 1, replicas = 1;
  int size() const { return std::max(shards, 1) * replicas; }
};
inline std::string to_string(const RankLayout& layout) {
  return tessera::text(layout.shards, " shards x ", layout.replicas, " replicas");
}

/// What one rank of a small training run holds: its shard of each parameter, Adam's state of it, and buffers.
/// Element i of parameter p has a gradient that depends on p, i and the step alone, so the values are the
/// same for every layout.
class RankState {
 public:
  RankState(const RankLayout& layout, int rank)
      : layout_(layout), rank_(rank), list_(local_parameters(layout, rank)) {
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

  tessera::dist::ShardPlacement placement() const {
    return {.shard_replicas = {layout_.replicas, rank_ / std::max(layout_.shards, 1)},
            .full_replicas = {layout_.size(), rank_}};
  }
  std::vector<tessera::dist::GroupShard> groups() const {
    return {tessera::dist::model_shards(list_, buffers_, placement()),
            tessera::dist::optimizer_shards(list_, adam_->state(), placement())};
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
  /// The shards of the concatenated parameters: of equal size, except for the last ones, which may be empty.
  static tessera::ParameterList local_parameters(const RankLayout& layout, int rank) {
    using namespace tessera;
    int64_t total = 0, position = 0;
    for (const Named& p : model()) total += p.shape.numel();
    const int shards = std::max(layout.shards, 1);
    const int64_t length = (total + shards - 1) / shards, begin = rank % shards * length;
    ParameterList list;
    for (const Named& p : model()) {
      const int64_t n = p.shape.numel();
      const int64_t first = std::clamp<int64_t>(begin - position, 0, n);
      const int64_t last = std::clamp<int64_t>(begin + length - position, 0, n);
      position += n;
      if (layout.shards == 0)
        list.push_back({p.name, Variable::parameter(Tensor::zeros(p.shape, p.dtype))});
      else
        list.push_back({p.name,
                        Variable::parameter(Tensor::zeros({last - first}, p.dtype)),
                        {},
                        ShardInfo{p.shape, first}});
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

  RankLayout layout_;
  int rank_;
  tessera::ParameterList list_;
  std::unique_ptr<tessera::optim::AdamW> adam_;
  std::vector<tessera::NamedTensor> buffers_;
};

/// Whether the shards have the values of the undistributed run in their ranges.
inline bool agrees_with(const std::vector<tessera::dist::GroupShard>& groups,
                        const RankState& undistributed) {
  using namespace tessera;
  const std::vector<dist::GroupShard> expected = undistributed.groups();
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].shards.size(); ++i) {
      const dist::TensorShard& shard = groups[g].shards[i];
      const Tensor full = expected[groups[g].name == "model" ? 0 : 1].shards[i].tensor;
      const Tensor values = full.view({full.numel()}).narrow(0, shard.range.begin, shard.range.numel());
      if (!same_bits(shard.tensor.view({shard.tensor.numel()}), values)) return false;
    }
  return true;
}

/// The checkpoint that the ranks of a layout write after `steps` steps, one rank after another.
inline std::string save_in_turn(const std::string& root, const RankLayout& layout, int64_t steps) {
  using namespace tessera::dist;
  CheckpointWriter writer(root, steps);
  std::vector<std::string> texts;
  for (int rank = 0; rank < layout.size(); ++rank) {
    RankState state(layout, rank);
    state.train(0, steps);
    texts.push_back(
        to_text(write_files(writer.folder(), rank, layout.size(), groups_to_write(state.groups()))));
  }
  return publish(writer, texts, state_at(steps), {});
}

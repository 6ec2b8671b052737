#include "dist/checkpoint/rank_shards.h"

#include <doctest/doctest.h>

#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/rank_save.h"
#include "optim/rules/adafactor.h"
#include "optim/rules/lbfgs.h"
#include "tests/dist/checkpoint/rank_state.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

const RankLayout layouts[] = {{0, 1}, {0, 3}, {1, 1}, {2, 1}, {3, 1}, {4, 1},
                              {5, 1}, {8, 1}, {2, 2}, {2, 4}, {4, 2}, {100, 1}};

}  // namespace

TEST_CASE("rank shards: any number of ranks loads that of any other, and continues with the same bits") {
  RankState saved({0, 1}, 0), continued({0, 1}, 0);
  saved.train(0, 3);
  continued.train(0, 7);
  for (const RankLayout& from : layouts) {
    const TemporaryFolder folder;
    const CheckpointReader reader(save_in_turn(folder.path(), from, 3));
    reader.verify();
    for (const RankLayout& to : layouts) {
      CAPTURE(to_string(from));
      CAPTURE(to_string(to));
      bool loaded = true, same = true;
      for (int rank = 0; rank < to.size(); ++rank) {
        RankState state(to, rank);
        for (const GroupShard& group : state.groups()) {
          require_same_tensors(reader, group);
          read_shards(reader, group);
        }
        loaded &= agrees_with(state.groups(), saved);
        state.train(3, 4);
        same &= agrees_with(state.groups(), continued);
      }
      CHECK(loaded);
      CHECK(same);
    }
  }
}

TEST_CASE("rank shards: replicas write each element once, in ranges of equal size") {
  for (const int replicas : {2, 3, 7}) {
    CAPTURE(replicas);
    const Tensor large = numbered({1000, 3}, 1), small = numbered({5}, 2);
    int64_t total = 0;
    for (int index = 0; index < replicas; ++index) {
      const Replicas replica{replicas, index};
      GroupShard group{"model", {}};
      group.shards.push_back({"large", large.shape(), full_range(large.shape()), large, replica});
      group.shards.push_back({"small", small.shape(), full_range(small.shape()), small, replica});
      group.shards.push_back({"other", small.shape(), full_range(small.shape()), small, {0, 0}});
      int64_t bytes = 0;
      for (const TensorShard& shard : shards_to_write(group)) {
        CHECK(shard.name != "other");
        CHECK(shard.tensor.numel() == shard.range.numel());
        const float first = shard.name == "large" ? 1000.0f : 2000.0f;
        CHECK(shard.tensor.data<float>()[0] == first + static_cast<float>(shard.range.begin));
        bytes += shard.tensor.nbytes();
      }
      CHECK(std::abs(bytes - 3005 * 4 / replicas) <= 4);
      total += bytes;
    }
    CHECK(total == 3005 * 4);
  }
}

TEST_CASE("rank shards: step counters are those of the rank with the parameter's first element") {
  const RankLayout layout{3, 1};
  const TemporaryFolder folder;
  CheckpointWriter writer(folder.path(), 2);
  std::vector<std::string> texts;
  for (int rank = 0; rank < 3; ++rank) {
    RankState state(layout, rank);
    state.train(0, 2);
    const std::vector<GroupShard> groups = state.groups();
    for (const NamedParameter& parameter : state.parameters()) {
      // A rank with an empty shard of a parameter may have had no gradient, and counted no step.
      if (parameter.variable.numel() == 0 && parameter.full_shape().numel() > 0)
        for (const TensorShard& shard : groups[1].shards)
          if (shard.name == "step/" + parameter.name) shard.tensor.zero();
    }
    texts.push_back(to_text(write_files(writer.folder(), rank, 3, groups_to_write(state.groups()))));
  }
  const CheckpointReader reader(publish(writer, texts, state_at(2), {}));
  for (const char* name : {"fc.weight", "fc.bias", "none", "scale", "out.weight"}) {
    const Tensor step = Tensor::scalar<int64_t>(0);
    reader.read({"optimizer", text("step/", name)}, full_range({}), step);
    CHECK(step.item_i64() == 2);
  }
}

TEST_CASE("rank shards: state that belongs to no parameter is refused by name") {
  RankState rank({2, 1}, 1);
  optim::OptimizerState state{"AdamW", {{"exp_avg/unknown", Tensor::zeros({2}, f32)}}, {}};
  CHECK(contains(refused([&] { optimizer_shards(rank.parameters(), state, rank.placement()); }),
                 "optimizer state 'exp_avg/unknown': belongs to no parameter"));
  state.tensors = {{"exp_avg/fc.bias", Tensor::zeros({9}, f32)}};
  CHECK(contains(refused([&] { optimizer_shards(rank.parameters(), state, rank.placement()); }),
                 "optimizer state 'exp_avg/fc.bias': expected shape"));
}

TEST_CASE("rank shards: LBFGS's state, which is of no parameter, is saved and loaded, of full parameters") {
  const TemporaryFolder folder;
  const auto make_list = [] {
    return ParameterList(
        {{"w", Variable::parameter(numbered({2}, 0))}, {"v", Variable::parameter(numbered({3}, 0))}});
  };
  // The loss sum_i (i + 1) (z_i - 3)^2 of both, and its gradients.
  const auto evaluate = [](const ParameterList& list) {
    double loss = 0;
    for (const NamedParameter& parameter : list) {
      const Tensor gradient = Tensor::zeros_like(parameter.values());
      for (int64_t i = 0; i < gradient.numel(); ++i) {
        const float factor = static_cast<float>(i + 1), distance = parameter.values().data<float>()[i] - 3.0f;
        loss += factor * distance * distance;
        gradient.data<float>()[i] = 2 * factor * distance;
      }
      parameter.variable.set_grad(Variable(gradient));
    }
    return loss;
  };
  const ParameterList list = make_list(), other = make_list();
  optim::LBFGS saved(list, {.lr = 0.1, .max_iter = 3}), loaded(other, {.lr = 0.1, .max_iter = 3});
  saved.step([&] { return evaluate(list); });
  CheckpointWriter writer(folder.path(), 1);
  const std::vector<GroupShard> groups{model_shards(list, {}, {}), optimizer_shards(list, saved.state(), {})};
  publish(writer,
          std::vector<std::string>{to_text(write_files(writer.folder(), 0, 1, groups_to_write({groups})))},
          state_at(1), {});
  const CheckpointReader reader(find_checkpoint(folder.path()));
  for (const GroupShard& group : {model_shards(other, {}, {}), optimizer_shards(other, loaded.state(), {})}) {
    require_same_tensors(reader, group);
    read_shards(reader, group);
  }
  saved.step([&] { return evaluate(list); });
  loaded.step([&] { return evaluate(other); });
  for (size_t i = 0; i < 2; ++i) CHECK(same_bits(list[i].values(), other[i].values()));
  // Over shards such state has no place.
  RankState rank({2, 1}, 1);
  const optim::OptimizerState state{"LBFGS", {{"old_dirs", Tensor::zeros({2, 5}, f32)}}, {}};
  CHECK(contains(refused([&] { optimizer_shards(rank.parameters(), state, rank.placement()); }),
                 "optimizer state 'old_dirs': belongs to no parameter"));
}

TEST_CASE("rank shards: masters are saved, and parameters are rounded from them after loading") {
  const TemporaryFolder folder;
  const Tensor master = numbered({4, 3}, 7), computed = Tensor::zeros({4, 3}, bf16);
  const ParameterList list({{"w", Variable::parameter(computed), master}});
  const GroupShard group = model_shards(list, {}, {});
  CheckpointWriter writer(folder.path(), 1);
  publish(writer,
          std::vector<std::string>{to_text(write_files(writer.folder(), 0, 1, groups_to_write({{group}})))},
          state_at(1), {});
  master.zero();
  read_shards(CheckpointReader(find_checkpoint(folder.path())), group);
  CHECK(same_bits(master, numbered({4, 3}, 7)));
  for (int64_t i = 0; i < 12; ++i)
    CHECK(computed.data<bfloat16>()[i].bits == bfloat16(static_cast<float>(7000 + i)).bits);
}

TEST_CASE("rank shards: state of another shape than its parameter is saved and loaded, of full parameters") {
  const TemporaryFolder folder;
  const ParameterList list({{"w", Variable::parameter(numbered({4, 3}, 7))}});
  optim::Adafactor saved(list), loaded(list);
  list[0].variable.set_grad(Variable(numbered({4, 3}, 2)));
  saved.step();
  CheckpointWriter writer(folder.path(), 1);
  publish(writer,
          std::vector<std::string>{to_text(write_files(
              writer.folder(), 0, 1, groups_to_write({{optimizer_shards(list, saved.state(), {})}})))},
          state_at(1), {});
  read_shards(CheckpointReader(find_checkpoint(folder.path())), optimizer_shards(list, loaded.state(), {}));
  const optim::OptimizerState expected = saved.state(), given = loaded.state();
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    CAPTURE(expected.tensors[i].name);
    CHECK(same_bits(given.tensors[i].tensor, expected.tensors[i].tensor));
  }
}

TEST_CASE("rank shards: rank 0's buffers are saved") {
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<NamedTensor> buffers{{"mean", numbered({5}, rank)}};
    const GroupShard group =
        model_shards({}, buffers, {.shard_replicas = {1, 0}, .full_replicas = {3, rank}});
    CHECK(group.shards.size() == 1);  // loaded by all
    CHECK(shards_to_write(group).size() == (rank == 0 ? 1 : 0));
  }
}

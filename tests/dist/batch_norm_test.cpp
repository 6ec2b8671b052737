// Batch norm over ranks: 2 and 4 ranks, with unequal numbers of samples, equal one process on all of them.

#include "nn/layers/batch_norm.h"

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/reduction.h"
#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/model_state.h"
#include "dist/mesh/rank_statistics.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/rules/sgd.h"
#include "tensor/ops/elementwise/cast.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"
#include "tests/dist/fsdp/against_one_device.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

constexpr int64_t C = 5;

/// Rows first to first + n - 1 of an endless input.
Tensor rows(int64_t first, int64_t n, int64_t step = 0) {
  const Tensor x = Tensor::empty({n, C}, f64);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const int64_t element = first * C + i;
    x.data<double>()[i] = static_cast<double>((element * element + 3 * element + 5 * step) % 23) / 7 - 1;
  }
  return x;
}

struct Net : nn::Layer<Net> {
  nn::Linear& in = add<nn::Linear>("in", {.in = C, .out = C});
  nn::BatchNorm1d& norm = add<nn::BatchNorm1d>("norm", nn::BatchNormOptions{.num_features = C});
  nn::Linear& out = add<nn::Linear>("out", {.in = C, .out = 3});
  Variable forward(const Variable& x) { return out(norm.norm_relu(in(x))); }
};

struct Result {
  Tensor y, dx, dweight, dbias, mean, variance;
};

/// Forward and backward of one norm on rows first to first + n - 1.
Result run(const nn::BatchNorm1d& norm, int64_t first, int64_t n) {
  const Variable x = Variable::leaf(rows(first, n));
  const Variable y = norm(x);
  sum(y * Variable(rows(first + 100, n))).backward();
  return {y.value(),
          x.grad().value(),
          norm.weight->grad().value(),
          norm.bias->grad().value(),
          norm.running_mean->value(),
          norm.running_var->value()};
}

nn::BatchNorm1d norm_layer() {
  nn::BatchNorm1d norm({.num_features = C});
  norm.to(f64);
  nn::materialize(norm, cpu(), 1);
  for (int64_t c = 0; c < C; ++c)
    norm.weight->value().data<double>()[c] = 0.5 + 0.25 * static_cast<double>(c);
  return norm;
}

std::string compare(const char* what, const Tensor& found, const Tensor& expected) {
  for (int64_t i = 0; i < found.numel(); ++i) {
    const double a = found.contiguous().data<double>()[i], b = expected.contiguous().data<double>()[i];
    if (!(std::abs(a - b) <= 1e-12 * std::max(1.0, std::abs(b))))
      return text(what, " has ", a, ", expected ", b);
  }
  return "";
}

/// Rank r has r + 2 rows.
int64_t first_row(int rank) {
  int64_t first = 0;
  for (int r = 0; r < rank; ++r) first += r + 2;
  return first;
}

std::vector<std::string> check_one_norm(World& world) {
  nn::BatchNorm1d whole = norm_layer(), own = norm_layer();
  const Result expected = run(whole, 0, first_row(world.size()));
  const Mesh mesh(world);
  std::vector<std::string> problems;
  if (synchronize_batch_norm(own, mesh) != 1) problems.push_back("expected 1 batch norm");
  const int64_t first = first_row(world.rank()), n = world.rank() + 2;
  const Result found = run(own, first, n);
  const Tensor sums = Tensor::empty({2 * C}, f64);
  sums.narrow(0, 0, C).copy_from(found.dweight);
  sums.narrow(0, C, C).copy_from(found.dbias);
  world.communicator().all_reduce(sums, Reduction::sum).wait();
  for (const std::string& problem : {compare("y", found.y, expected.y.narrow(0, first, n)),
                                     compare("dx", found.dx, expected.dx.narrow(0, first, n)),
                                     compare("dweight", sums.narrow(0, 0, C), expected.dweight),
                                     compare("dbias", sums.narrow(0, C, C), expected.dbias),
                                     compare("running_mean", found.mean, expected.mean),
                                     compare("running_var", found.variance, expected.variance)})
    if (!problem.empty()) problems.push_back(problem);
  return problems;
}

constexpr int64_t rows_per_rank = 4;

std::vector<test::Shard> train(Net& net, int64_t first, int64_t n) {
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 4; ++step) {
    sgd.zero_grad();
    const Variable y = net(Variable(ops::cast(rows(first, n, step), f32)));
    mean(y * y + y).backward();
    sgd.step();
  }
  std::vector<test::Shard> shards = test::shards_of(net);
  for (const NamedParameter& buffer : net.buffers())
    if (buffer.variable.dtype() == f32) shards.push_back({buffer.name, 0, buffer.variable.value().clone()});
  return shards;
}

/// A sharded network of one rank.
struct Run {
  Run(World& world, const test::Setting& setting, bool synchronized = true)
      : mesh(test::mesh_for(world, setting)) {
    if (synchronized) synchronize_batch_norm(net, mesh);
    sharding = &dist::shard(net, {.mesh = mesh, .strategy = setting.strategy, .units = every<nn::Linear>()});
    nn::materialize(net, cpu(), 3);
  }
  std::vector<GroupShard> groups() { return dist::shards_of(net, nullptr, placement_of(*sharding)); }

  Net net;
  Mesh mesh;
  Sharding* sharding = nullptr;
};

std::vector<std::string> check_strategies(World& world) {
  const auto sharded = [&](const test::Setting& setting) {
    Run run(world, setting);
    return train(run.net, rows_per_rank * world.rank(), rows_per_rank);
  };
  const auto single = [&] {
    Net net;
    nn::materialize(net, cpu(), 3);
    return train(net, 0, rows_per_rank * world.size());
  };
  return test::compare_all(world, sharded, single, 2e-5f);
}

}  // namespace

TEST_CASE("batch norm over ranks: forward, gradients and running statistics are those of one process") {
  for (const int ranks : {1, 2, 4}) test::require_no_problems(ranks, check_one_norm);
}

TEST_CASE("batch norm over ranks: a small network trains as one process under every strategy") {
  for (const int ranks : {2, 4}) test::require_no_problems(ranks, check_strategies);
}

TEST_CASE(
    "batch norm of each rank by itself: every strategy has the bits of no_shard, running statistics too") {
  test::require_no_problems(4, [](World& world) {
    std::vector<std::string> problems;
    std::vector<test::Shard> no_shard;
    for (const test::Setting& setting : test::settings_for(world)) {
      Run run(world, setting, false);
      const std::vector<test::Shard> found = train(run.net, rows_per_rank * world.rank(), rows_per_rank);
      if (setting.strategy == Strategy::no_shard) no_shard = found;
      for (const std::string& problem : test::differences(found, no_shard, 0))
        problems.push_back(text(to_string(setting), ": ", problem));
    }
    return problems;
  });
}

TEST_CASE("batch norm over ranks: one value per channel over all ranks is an error") {
  test::require_no_problems(2, [](World& world) -> std::vector<std::string> {
    const Mesh mesh(world);
    nn::BatchNorm1d norm = norm_layer();
    synchronize_batch_norm(norm, mesh);
    std::vector<std::string> problems;
    norm(Variable(rows(world.rank(), 1)));  // two values together
    try {
      norm(Variable(rows(0, world.rank())));
      problems.push_back("one value was taken");
    } catch (const ValueError& error) {
      if (std::string(error.what()).find("over all ranks, got 1") == std::string::npos)
        problems.push_back(error.what());
    }
    return problems;
  });
}

TEST_CASE("batch norm over ranks: running statistics are in the checkpoint, which every strategy loads") {
  test::require_no_problems(2, [](World& world) {
    std::vector<std::string> problems;
    const std::vector<test::Setting> settings = test::settings_for(world);
    for (size_t i = 0; i < settings.size(); ++i) {
      static TemporaryFolder folders[4];  // the same on all ranks
      const std::string root = folders[i] / "run";
      Run saved(world, settings[i]), loaded(world, settings[(i + 1) % settings.size()]);
      train(saved.net, rows_per_rank * world.rank(), rows_per_rank);
      save_checkpoint(world.communicator(), root, state_at(1), saved.groups());
      load_checkpoint(world.communicator(), *open_checkpoint(world.communicator(), root), loaded.groups());
      const std::vector<NamedParameter> before = saved.net.buffers(), after = loaded.net.buffers();
      for (size_t b = 0; b < before.size(); ++b)
        if (!same_bits(before[b].variable.value(), after[b].variable.value()))
          problems.push_back(text(to_string(settings[i]), ": ", before[b].name, " differs after loading"));
      if (loaded.net.norm.num_batches_tracked->item_i64() != 4) problems.push_back("the number of calls");
    }
    return problems;
  });
}

#include "dist/train/engine/engine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <tuple>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "autograd/recompute/checkpoint.h"
#include "nn/functional.h"
#include "nn/layer.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/adam.h"
#include "optim/rules/sgd.h"
#include "optim/schedules/decay.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/shaping.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using training::Engine;
using training::EngineOptions;
using training::TrainingConfig;

namespace {

struct Net : nn::Layer<Net> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 5, .out = 7});
  nn::Linear& second = add<nn::Linear>("second", {.in = 7, .out = 3});
  Variable forward(const Variable& x) { return second(tanh(first(x))); }
};

constexpr uint64_t seed = 42;

/// Samples first .. first + count - 1 of step `step`.
struct Samples {
  Tensor x, y;
};
Samples samples(int64_t step, int64_t first, int64_t count, int64_t batch = 8) {
  Tensor x = Tensor::empty({batch, 5}, f32), y = Tensor::empty({batch}, i64);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = std::sin(static_cast<float>(step * 1000 + i * 7));
  for (int64_t i = 0; i < batch; ++i) y.data<int64_t>()[i] = (step + i * i) % 3;
  return {x.slice(0, first, first + count), y.slice(0, first, first + count)};
}

training::OptimizerMaker adam() {
  return [](const ParameterList& parameters) {
    return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 1e-2});
  };
}

optim::Schedule schedule() {
  return optim::step_decay({.step_size = 2, .gamma = 0.5});
}

/// The losses of a loop without an engine, on one rank and whole batches.
std::vector<double> hand_written(int steps, double clip) {
  Net net;
  nn::materialize(net, cpu(), seed);
  optim::Adam optimizer(net.parameters(), {.lr = 1e-2});
  optim::Schedule rates = schedule();
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    rates.apply(optimizer);
    const auto [x, y] = samples(step, 0, 8);
    const Variable loss = nn::cross_entropy(net(x), y);
    losses.push_back(loss.value().item());
    loss.backward();
    if (clip > 0) optim::clip_grad_norm(net.parameters(), clip);
    optimizer.step();
    optimizer.zero_grad();
    rates.advance();
  }
  return losses;
}

/// The mean losses of the same run by an engine.
std::vector<double> by_engine(int steps, TrainingConfig config, dist::World* world = nullptr) {
  Net net;
  Engine engine(net, {.config = config, .optimizer = adam(), .schedule = schedule(), .world = world});
  std::vector<double> losses;
  const int64_t micro = engine.train_micro_batch_size_per_gpu();
  for (int step = 0; step < steps; ++step) {
    double sum = 0;
    for (int64_t i = 0; i < engine.gradient_accumulation_steps(); ++i) {
      const int64_t first = (i * engine.world_size() + engine.rank()) * micro;
      const auto [x, y] = samples(step, first, micro);
      const Variable loss = nn::cross_entropy(engine(x), y);
      sum += loss.value().item();
      engine.backward(loss);
      engine.step();
    }
    Tensor mean = ops::full({}, sum / static_cast<double>(engine.gradient_accumulation_steps()), f64);
    if (world) world->communicator().all_reduce(mean, dist::Reduction::avg).wait();
    losses.push_back(mean.item());
  }
  return losses;
}

TrainingConfig sizes(int64_t train, int64_t micro) {
  TrainingConfig config;
  config.train_batch_size = train;
  config.micro_batch_size = micro;
  return config;
}

bool near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance)) return false;
  return true;
}

std::string all_of(const std::vector<double>& values) {
  std::string out;
  for (const double value : values) out += text(value, " ");
  return out;
}

}  // namespace

TEST_CASE("engine: the losses of a hand-written loop, to the bit") {
  CHECK(by_engine(6, sizes(8, 8)) == hand_written(6, 0));
  TrainingConfig config = sizes(8, 8);
  config.gradient_clip = 0.05;
  CHECK(by_engine(6, config) == hand_written(6, 0.05));
}

TEST_CASE("engine: accumulated micro-batches give the step of the whole batch") {
  for (const int64_t micro : {1, 2, 4}) {
    const std::vector<double> losses = by_engine(6, sizes(8, micro));
    CHECK_MESSAGE(near(losses, hand_written(6, 0), 1e-6), all_of(losses));
  }
}

TEST_CASE("engine: ranks and strategies give the losses of one rank") {
  const std::vector<double> expected = hand_written(6, 0.5);
  for (const dist::Strategy strategy : dist::flat_strategies)
    for (const int ranks : {1, 2, 4})
      for (const int64_t accumulation : {1, 2}) {
        CAPTURE(ranks);
        CAPTURE(std::string(dist::name_of(strategy)));
        TrainingConfig config = sizes(8, 8 / ranks / accumulation);
        config.strategy = strategy;
        config.gradient_clip = 0.5;
        test::require_no_problems(ranks, [&](dist::World& world) -> std::vector<std::string> {
          const std::vector<double> losses = by_engine(6, config, &world);
          if (near(losses, expected, 1e-6)) return {};
          return {all_of(losses) + " for " + all_of(expected)};
        });
      }
}

TEST_CASE("engine: counters, boundary, rates and norm") {
  Net net;
  Engine engine(net, {.config = sizes(8, 4), .optimizer = adam(), .schedule = schedule()});
  CHECK(engine.gradient_accumulation_steps() == 2);
  CHECK(engine.train_batch_size() == 8);
  CHECK(engine.device() == cpu());
  CHECK(engine.local_rank() == 0);
  CHECK(engine.world_size() == 1);
  CHECK(engine.loss_scale() == 1.0);
  std::vector<bool> updates;
  for (int i = 0; i < 8; ++i) {
    CHECK(engine.is_gradient_accumulation_boundary() == (i % 2 == 1));
    const auto [x, y] = samples(i, 0, 4);
    engine.backward(nn::cross_entropy(engine(x), y));
    updates.push_back(engine.step());
  }
  CHECK(updates == std::vector<bool>{false, true, false, true, false, true, false, true});
  CHECK(engine.global_steps() == 4);
  CHECK(engine.micro_steps() == 8);
  CHECK(engine.skipped_steps() == 0);
  CHECK(engine.get_lr() == std::vector<double>{1e-2 * 0.25});
  CHECK(engine.global_grad_norm() > 0);
  for (const NamedParameter& parameter : net.parameters()) CHECK(!parameter.variable.grad().defined());
}

TEST_CASE("engine: five steps, a checkpoint and five steps are ten steps, to the bit, under every strategy") {
  const auto run = [](dist::World* world, dist::Strategy strategy, training::PrecisionMode precision,
                      const std::string& folder) {
    TrainingConfig config = sizes(8, 2);
    config.strategy = strategy;
    config.precision = precision;
    config.scaler.initial_scale_power = 4;
    const auto steps = [&](Engine<Net>& engine, int64_t from, int64_t to) {
      std::vector<double> losses;
      for (int64_t step = from; step < to; ++step)
        for (int64_t i = 0; i < engine.gradient_accumulation_steps(); ++i) {
          const auto [x, y] = samples(step, (i * engine.world_size() + engine.rank()) * 2, 2);
          const Variable loss = nn::cross_entropy(engine(x), y);
          losses.push_back(loss.value().item());
          engine.backward(loss);
          engine.step();
        }
      return losses;
    };
    const EngineOptions options{
        .config = config, .optimizer = adam(), .schedule = schedule(), .world = world};
    Net whole, first, second;
    Engine once(whole, options);
    steps(once, 0, 5);
    const std::vector<double> expected = steps(once, 5, 10);
    Engine begun(first, options);
    steps(begun, 0, 5);
    begun.save_checkpoint(folder);
    Engine resumed(second, options);
    resumed.load_checkpoint(folder);
    std::vector<std::string> problems;
    if (resumed.global_steps() != 5) problems.push_back("global_steps");
    if (resumed.get_lr() != begun.get_lr()) problems.push_back("get_lr");
    if (resumed.loss_scale() != begun.loss_scale()) problems.push_back("loss_scale");
    const std::vector<double> losses = steps(resumed, 5, 10);
    if (losses != expected) problems.push_back(all_of(losses) + " for " + all_of(expected));
    return problems;
  };
  for (const training::PrecisionMode precision :
       {training::PrecisionMode::f32, training::PrecisionMode::bf16, training::PrecisionMode::f16}) {
    CAPTURE(static_cast<int>(precision));
    const TemporaryFolder alone;
    CHECK(run(nullptr, dist::Strategy::no_shard, precision, alone / "run") == std::vector<std::string>{});
    for (const dist::Strategy strategy : dist::flat_strategies) {
      const TemporaryFolder folder;
      CAPTURE(std::string(dist::name_of(strategy)));
      test::require_no_problems(
          2, [&](dist::World& world) { return run(&world, strategy, precision, folder / "run"); });
    }
  }
}

TEST_CASE("engine: an overflow in precision 16 skips the step, and the scale falls at the second") {
  Net net;
  TrainingConfig config = sizes(4, 4);
  config.precision = training::PrecisionMode::f16;
  Engine engine(net, {.config = config, .optimizer = adam(), .schedule = schedule()});
  CHECK(engine.loss_scale() == 65536);
  const auto step = [&](float factor) {
    const auto [x, y] = samples(0, 0, 4);
    engine.backward(nn::cross_entropy(engine(x), y) * factor);
    return engine.step();
  };
  const Tensor before = net.first.weight.value().clone();
  CHECK(!step(INFINITY));
  CHECK(engine.loss_scale() == 65536);
  CHECK(!step(INFINITY));
  CHECK(engine.loss_scale() == 32768);
  CHECK(engine.skipped_steps() == 2);
  CHECK(engine.get_lr()[0] == 1e-2);  // the schedule did not advance
  CHECK(net.first.weight.value().array_equal(before));
  CHECK(step(1));
  CHECK(engine.global_steps() == 3);
}

TEST_CASE("engine: in half precision an f32 input stays f32, and products are in the low dtype") {
  struct Residual : nn::Layer<Residual> {
    nn::Linear& layer = add<nn::Linear>("layer", {.in = 5, .out = 5});
    DType input = f64, product = f64;
    Variable forward(const Variable& x) {
      const Variable y = layer(x);
      input = x.dtype();
      product = y.dtype();
      return x + y;
    }
  };
  TrainingConfig config = sizes(4, 4);
  config.precision = training::PrecisionMode::bf16;
  for (const int ranks : {0, 2}) {
    const auto check = [&](dist::World* world) -> std::vector<std::string> {
      Residual net;
      TrainingConfig own = config;
      own.train_batch_size = 4 * std::max(ranks, 1);
      Engine engine(net, {.config = own, .optimizer = adam(), .world = world});
      const Variable y = engine(samples(0, 0, 4).x);
      std::vector<std::string> problems;
      if (net.input != f32) problems.push_back("the input is " + to_string(net.input));
      if (net.product != bf16) problems.push_back("the product is " + to_string(net.product));
      if (y.dtype() != f32) problems.push_back("the result is " + to_string(y.dtype()));
      engine.backward(sum(square(y)));
      engine.step();
      return problems;
    };
    if (ranks == 0)
      CHECK(check(nullptr) == std::vector<std::string>{});
    else
      test::require_no_problems(ranks, [&](dist::World& world) { return check(&world); });
  }
}

TEST_CASE("engine: train_batch takes the batches of a step, eval_batch records nothing") {
  Net net, other;
  Engine engine(net, {.config = sizes(8, 4), .optimizer = adam()});
  std::vector<data::Batch> batches;
  for (int i = 0; i < 5; ++i) {
    const auto [x, y] = samples(i / 2, i % 2 * 4, 4);
    data::Batch batch;
    batch.x = x;
    batch.y = y;
    for (int64_t k = 0; k < 4; ++k) batch.samples.push_back(k), batch.items.push_back(k);
    batches.push_back(batch);
  }
  const auto loss = [&](const data::Batch& batch) { return nn::cross_entropy(engine(batch.x), batch.y); };
  auto at = batches.begin();
  const double first = engine.train_batch(at, batches.end(), loss);
  CHECK(at == batches.begin() + 2);
  CHECK(engine.global_steps() == 1);
  CHECK(std::abs(first - hand_written(1, 0)[0]) < 1e-6);
  engine.train_batch(at, batches.end(), loss);
  CHECK(message_of<ValueError>([&] { engine.train_batch(at, batches.end(), loss); }) ==
        "Engine::train_batch: expected 2 batches, got 1");
  const double mean = engine.eval_batch(batches, loss);
  CHECK(std::isfinite(mean));
  CHECK(net.is_training());
}

TEST_CASE("engine: what is wrong is an error that names it") {
  Net net;
  CHECK(contains(message_of<ConfigError>([&] { Engine engine(net, {.config = sizes(8, 8)}); }),
                 "expected a function that makes the optimizer"));
  CHECK(contains(message_of<ConfigError>([&] { Engine engine(net, {.optimizer = adam()}); }), "batch sizes"));
  Engine engine(net, {.config = sizes(8, 4), .optimizer = adam()});
  CHECK(contains(message_of<ConfigError>([&] { engine.step(); }), "expected `backward`"));
  const Samples all = samples(0, 0, 4);
  const Tensor x = all.x, y = all.y;
  CHECK(contains(message_of<ValueError>([&] { engine.backward(engine(x)); }),
                 "expected a loss of one element"));
  engine.backward(nn::cross_entropy(engine(x), y));
  engine.step();
  CHECK(contains(message_of<ConfigError>([&] { engine.save_checkpoint("nowhere"); }), "micro-batch 1 of 2"));
  engine.backward(nn::cross_entropy(engine(x), y) * NAN);
  const Tensor before = net.first.weight.value().clone();
  CHECK(contains(message_of<NonFiniteError>([&] { engine.step(); }), "step 1: "));
  CHECK(net.first.weight.value().array_equal(before));
}

TEST_CASE("engine: sizes and kinds of messages change no loss, and are those of the configuration") {
  using Choice = void (*)(TrainingConfig&);
  constexpr Choice choices[] = {[](TrainingConfig& c) { c.reduce_bucket_size = 10; },
                                [](TrainingConfig& c) { c.gather_bucket_size = 1; },
                                [](TrainingConfig& c) { c.prefetch_bucket_size = 5; },
                                [](TrainingConfig& c) { c.prefetch_bucket_size = 0; },
                                [](TrainingConfig& c) { c.reduce_scatter = false; },
                                [](TrainingConfig& c) { c.gather_partitions = false; },
                                [](TrainingConfig& c) { c.overlap_communication = false; }};
  test::require_no_problems(2, [&](dist::World& world) {
    std::vector<std::string> problems;
    dist::Ledger& ledger = world.communicator().ledger();
    for (const dist::Strategy strategy : dist::flat_strategies) {
      TrainingConfig config = sizes(8, 2);
      config.strategy = strategy;
      const std::vector<double> expected = by_engine(4, config, &world);
      for (const Choice choice : choices) {
        TrainingConfig chosen = config;
        choice(chosen);
        ledger.reset();
        ledger.keep_entries(true);
        const std::vector<double> losses = by_engine(4, chosen, &world);
        ledger.keep_entries(false);
        const auto number = text(strategy, ", choice ", &choice - std::begin(choices), ": ");
        if (losses != expected) problems.push_back(number + all_of(losses) + " for " + all_of(expected));
        for (const dist::LedgerEntry& entry : ledger.entries()) {
          const bool gathers = entry.traffic == dist::Traffic::parameters,
                     reduces = entry.traffic == dist::Traffic::gradients;
          if ((gathers && (entry.bytes / 4 > chosen.gather_bucket_size ||
                           (!chosen.gather_partitions && entry.kind != dist::CallKind::broadcast))) ||
              (reduces && (entry.bytes / 4 > chosen.reduce_bucket_size ||
                           (!chosen.reduce_scatter && entry.kind != dist::CallKind::all_reduce))))
            problems.push_back(text(number, name_of(entry.kind), " of ", entry.bytes, " bytes"));
        }
      }
    }
    return problems;
  });
}

namespace {

/// Layers that checkpoint themselves, and whether their inputs are held in the rank's memory.
struct Checkpointed : nn::Layer<Checkpointed> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 5, .out = 64});
  nn::Linear& second = add<nn::Linear>("second", {.in = 64, .out = 3});
  Variable forward(const Variable& x) {
    const Variable hidden = checkpoint([this](const Variable& v) { return tanh(first(v)); }, x);
    return checkpoint([this](const Variable& v) { return second(v * v); }, hidden);
  }
};

/// Losses of four steps, the bytes of activations between forward and backward of the last one, and the most
/// bytes that were elsewhere.
std::tuple<std::vector<double>, int64_t, int64_t> offloaded(const TrainingConfig& config) {
  Checkpointed net;
  Engine engine(net, {.config = config, .optimizer = adam()});
  std::vector<double> losses;
  int64_t held = 0;
  for (int step = 0; step < 4; ++step) {
    const auto [x, y] = samples(step, 0, 8);
    const int64_t before = current_account()->count(MemoryCategory::activation).current;
    const Variable loss = nn::cross_entropy(engine(x), y);
    held = current_account()->count(MemoryCategory::activation).current - before;
    losses.push_back(loss.value().item());
    engine.backward(loss);
    engine.step();
  }
  return {losses, held, engine.offloaded_bytes_peak()};
}

}  // namespace

TEST_CASE("engine: inputs of checkpointed segments are held on the host or in a file, with the same losses") {
  const TemporaryFolder folder;
  const auto [losses, held, none] = offloaded({.micro_batch_size = 8});
  CHECK(none == 0);
  for (const std::string& place : {std::string("cpu"), folder / "."}) {
    CAPTURE(place);
    const auto [same, less, elsewhere] = offloaded({.micro_batch_size = 8, .activation_offload = place});
    CHECK(same == losses);
    CHECK(elsewhere >= held - less);  // a step also holds its inputs there
    CHECK(elsewhere < held - less + 512);
    CHECK(held - less >= 8 * 64 * 4);  // the hidden values
  }
}

TEST_CASE("engine: bad places for the inputs of segments are refused, and a budget holds") {
  CHECK_THROWS_WITH_AS(offloaded({.micro_batch_size = 8, .activation_offload = "/no/such/folder"}),
                       "FileStore: cannot make a file in '/no/such/folder': No such file or directory",
                       ConfigError);
  CHECK_THROWS_WITH_AS(offloaded({.micro_batch_size = 8, .activation_offload_bytes = 100}),
                       "Engine: activation_offload_bytes 100: expected activation_offload cpu, got ''",
                       ConfigError);
  CHECK_THROWS_AS(
      offloaded({.micro_batch_size = 8, .activation_offload = "cpu", .activation_offload_bytes = 1000}),
      OutOfMemoryError);
}

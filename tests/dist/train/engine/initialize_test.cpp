#include "dist/train/engine/initialize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>

#include "autograd/functions/elementwise/binary.h"
#include "nn/functional.h"
#include "nn/layer.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/rules/adam.h"
#include "optim/schedules/deepspeed/warmup.h"
#include "tensor/error.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using training::TrainingConfig;

namespace {

struct Net : nn::Layer<Net> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 6});
  nn::Linear& second = add<nn::Linear>("second", {.in = 6, .out = 3});
  Variable forward(const Variable& x) { return second(tanh(first(x))); }
};

/// 32 points with classes.
std::shared_ptr<const data::Dataset> points() {
  Tensor x = Tensor::empty({32, 4}, f32), y = Tensor::empty({32}, i64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
  for (int64_t i = 0; i < 32; ++i) y.data<int64_t>()[i] = i * i % 3;
  return std::make_shared<data::TensorDataset>(x, y);
}

const std::string file = R"({
  "train_batch_size": 8, "train_micro_batch_size_per_gpu": 4, "gradient_clipping": 0.5, // of one rank
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "betas": [0.8, 0.999], "eps": 1e-8, "weight_decay": 3e-7}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.01, "warmup_num_steps": 5}},
})";

/// The losses of an epoch and a half, by the loop of DeepSpeed's documentation.
template <class Training>
std::vector<double> losses_of(Training& training, int64_t micro_batches = 12) {
  auto& [engine, optimizer, loader, schedule] = training;
  std::vector<double> losses;
  while (static_cast<int64_t>(losses.size()) < micro_batches)
    for (auto& [x, y] : *loader) {
      const Variable loss = nn::cross_entropy(engine(x), y);
      engine.backward(loss);
      engine.step();
      losses.push_back(loss.value().item());
      if (static_cast<int64_t>(losses.size()) == micro_batches) break;
    }
  return losses;
}

template <class Body>
std::string refusal(Body body) {
  return message_of<ConfigError>(body);
}

std::string refused(const std::string& json, const char* part = "") {
  return refusal([&] {
    Net net;
    training::initialize(net, {.config = training::JsonText{json}});
    CAPTURE(part);
  });
}

std::string with(const std::string& optimizer, const std::string& scheduler) {
  std::string json = "{\"train_batch_size\": 8,\n\"optimizer\": " + optimizer;
  if (!scheduler.empty()) json += ",\n\"scheduler\": " + scheduler;
  return json + "}";
}
const std::string adam = R"({"type": "Adam", "params": {"lr": 0.01}})";

}  // namespace

TEST_CASE("initialize: the documents' loop has the losses of a hand-written one, to the bit") {
  Net net, other;
  auto training = training::initialize(net, {.config = training::JsonText{file}, .training_data = points()});
  const std::vector<double> losses = losses_of(training);

  nn::materialize(other, cpu(), 42);
  optim::AdamW by_hand(other.parameters(),
                       {.lr = 1e-2, .betas = {0.8, 0.999}, .eps = 1e-8, .weight_decay = 3e-7});
  optim::Schedule rates = optim::warmup({.warmup_min_lr = 0, .warmup_max_lr = 0.01, .warmup_num_steps = 5});
  data::DataLoader loader(points(), {.batch_size = 4, .shuffle = true, .seed = 42});
  std::vector<double> expected;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto& [x, y] : loader) {
      if (expected.size() == 12) break;
      const Variable loss = nn::cross_entropy(other(x), y);
      (loss * 0.5).backward();
      expected.push_back(loss.value().item());
      if (expected.size() % 2 == 1) continue;
      rates.apply(by_hand);
      optim::clip_grad_norm(other.parameters(), 0.5);
      by_hand.step();
      by_hand.zero_grad();
      rates.advance();
    }
  CHECK(losses == expected);
  CHECK(training.engine.global_steps() == 6);
}

TEST_CASE("initialize: a file, its text and a struct with code give the same losses") {
  const TemporaryFolder folder;
  std::ofstream(folder / "ds.json") << file;
  Net by_text, by_file, by_code;
  auto text = training::initialize(by_text, {.config = training::JsonText{file}, .training_data = points()});
  auto path = training::initialize(by_file, {.config = folder / "ds.json", .training_data = points()});
  TrainingConfig config;
  config.train_batch_size = 8;
  config.micro_batch_size = 4;
  config.gradient_clip = 0.5;
  auto code = training::initialize(
      by_code,
      {.config = config,
       .training_data = points(),
       .optimizer =
           [](const ParameterList& p) {
             return std::make_unique<optim::AdamW>(
                 p,
                 optim::AdamWOptions{.lr = 1e-2, .betas = {0.8, 0.999}, .eps = 1e-8, .weight_decay = 3e-7});
           },
       .schedule = optim::warmup({.warmup_min_lr = 0, .warmup_max_lr = 0.01, .warmup_num_steps = 5})});
  const std::vector<double> losses = losses_of(text);
  CHECK(losses_of(path) == losses);
  CHECK(losses_of(code) == losses);
}

TEST_CASE("initialize: stages 0 to 3 on two ranks have the losses of one rank; ranks see disjoint samples") {
  Net one;
  auto alone = training::initialize(one, {.config = training::JsonText{file}, .training_data = points()});
  const std::vector<double> expected = losses_of(alone, 8);
  for (int stage = 0; stage < 4; ++stage) {
    CAPTURE(stage);
    std::string json = file;
    json.replace(json.find("gpu\": 4"), 7, "gpu\": 2");
    json.insert(json.find("\"optimizer\""), text("\"zero_optimization\": {\"stage\": ", stage, "},\n"));
    std::mutex mutex;
    std::multiset<int64_t> seen;
    test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
      Net net;
      auto [engine, optimizer, loader, schedule] = training::initialize(
          net, {.config = training::JsonText{json}, .training_data = points(), .world = &world});
      std::vector<std::string> problems;
      size_t i = 0;
      for (const data::Batch& batch : *loader) {
        {
          const std::lock_guard lock(mutex);
          seen.insert(batch.items.begin(), batch.items.end());
        }
        const Variable loss = nn::cross_entropy(engine(batch.x), batch.y);
        engine.backward(loss);
        engine.step();
        Tensor mean = loss.value().to(f64);
        world.communicator().all_reduce(mean, dist::Reduction::avg).wait();
        if (!(std::abs(mean.item() - expected[i]) <= 1e-6))
          problems.push_back(text("micro-batch ", i, ": ", mean.item(), " for ", expected[i]));
        ++i;
      }
      if (i != 8) problems.push_back(text(i, " micro-batches"));
      return problems;
    });
    CHECK(seen.size() == 32);
    CHECK(std::set<int64_t>(seen.begin(), seen.end()).size() == 32);
  }
}

TEST_CASE("initialize: the documents' file runs with its limits of messages, which change no bit") {
  const char* const folder = std::getenv("TESSERA_DATA");
  if (folder == nullptr) {
    MESSAGE("left out: TESSERA_DATA names no folder with ds_config/");
    return;
  }
  std::ifstream in(std::string(folder) + "/ds_config/gptlite.json");
  std::string limited((std::istreambuf_iterator<char>(in)), {}), unlimited = limited;
  for (size_t at; (at = unlimited.find("4e5")) != unlimited.npos;) unlimited.replace(at, 3, "5e8");
  REQUIRE(unlimited != limited);

  struct Wide : nn::Layer<Wide> {
    nn::Linear& first = add<nn::Linear>("first", {.in = 4, .out = 700});
    nn::Linear& second = add<nn::Linear>("second", {.in = 700, .out = 650});  // more than 4e5 elements
    Variable forward(const Variable& x) { return second(tanh(first(x))); }
  };
  constexpr int64_t samples = 512;
  Tensor x = Tensor::empty({samples, 4}, f32), y = Tensor::empty({samples}, i64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i * 3));
  for (int64_t i = 0; i < samples; ++i) y.data<int64_t>()[i] = i * i % 3;
  const auto set = std::make_shared<data::TensorDataset>(x, y);

  test::require_no_problems(2, [&](dist::World& world) {
    std::vector<std::string> problems;
    dist::Ledger& ledger = world.communicator().ledger();
    const auto run = [&](const std::string& json) {
      Wide wide;
      auto training = training::initialize(wide, {.config = training::JsonText{json},
                                                  .training_data = set,
                                                  .world = &world,
                                                  .units = dist::every<nn::Linear>()});
      ledger.reset();
      ledger.keep_entries(true);
      // A step of 128 micro-batches of one sample, and what follows it.
      const std::vector<double> losses = losses_of(training, 130);
      ledger.keep_entries(false);
      int64_t largest = 0;
      for (const dist::LedgerEntry& entry : ledger.entries())
        if (entry.traffic == dist::Traffic::parameters) largest = std::max(largest, entry.bytes / 2);
      for (const dist::LedgerEntry& entry : ledger.entries())
        if (entry.traffic == dist::Traffic::gradients) largest = std::max(largest, entry.bytes / 4);
      return std::pair(losses, largest);
    };
    const auto [losses, largest] = run(limited);
    const auto [expected, whole] = run(unlimited);
    if (losses != expected) problems.push_back("other losses than without limits");
    if (largest > 400'000 || whole <= 400'000)
      problems.push_back(text("messages of ", largest, " elements, without limits ", whole));
    return problems;
  });
}

TEST_CASE("initialize: 256 samples of 8 ranks, one at once, are an update every 32 micro-batches") {
  std::string json = file;
  json.replace(json.find("size\": 8"), 8, "size\": 256");
  json.replace(json.find("gpu\": 4"), 7, "gpu\": 1");
  test::require_no_problems(8, [&](dist::World& world) {
    Net net;
    auto training = training::initialize(
        net, {.config = training::JsonText{json}, .training_data = points(), .world = &world});
    std::vector<std::string> problems;
    if (training.engine.gradient_accumulation_steps() != 32) problems.push_back("not 32 micro-batches");
    if (training.engine.local_rank() != world.local_rank()) problems.push_back("local_rank");
    if (training.engine.device() != world.device()) problems.push_back("device");
    losses_of(training, 31);
    if (training.engine.global_steps() != 0) problems.push_back("an update before the last micro-batch");
    losses_of(training, 1);
    if (training.engine.global_steps() != 1) problems.push_back("no update at the last micro-batch");
    return problems;
  });
}

TEST_CASE("initialize: an incomplete last batch is left out, so that every rank has samples") {
  std::string json = file;
  json.replace(json.find("size\": 8"), 8, "size\": 9");
  json.replace(json.find("gpu\": 4"), 7, "gpu\": 3");
  test::require_no_problems(3, [&](dist::World& world) {
    Net net;
    auto training = training::initialize(
        net, {.config = training::JsonText{json}, .training_data = points(), .world = &world});
    std::vector<std::string> problems;
    if (training.loader->size() != 3)
      problems.push_back(text(training.loader->size(), " batches"));  // of 32 / 9
    for (const double loss : losses_of(training, 6))
      if (!std::isfinite(loss)) problems.push_back("a loss that is not finite");
    return problems;
  });
}

TEST_CASE("initialize: an optimizer and a schedule come from the code or from the file, not from both") {
  Net net;
  const auto maker = [](const ParameterList& p) { return std::make_unique<optim::Adam>(p); };
  CHECK(contains(refused("{\"train_batch_size\": 8}"),
                 "expected an optimizer, from the program or the configuration"));
  CHECK(contains(
      refusal([&] { training::initialize(net, {.config = training::JsonText{file}, .optimizer = maker}); }),
      "the configuration:3: optimizer: the program gives an optimizer too"));
  CHECK(contains(refusal([&] {
                   training::initialize(net,
                                        {.config = training::JsonText{file}, .schedule = optim::warmup({})});
                 }),
                 "the configuration:4: scheduler: the program gives a schedule too"));
  CHECK(contains(refusal([&] { training::initialize(net, {.config = "nowhere.json"}); }),
                 "nowhere.json: expected"));
}

TEST_CASE("initialize: each optimizer and schedule of a file by name") {
  for (const char* name : {"Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "Lamb", "Lion"}) {
    CAPTURE(std::string(name));
    CHECK(refused(with(text("{\"type\": \"", name, "\", \"params\": {\"lr\": 0.01}}"), "")) ==
          "(nothing was thrown)");
  }
  CHECK(contains(
      message_of<ValueError>([] { refused(with(R"({"type": "Muon", "params": {"lr": 0.01}})", "")); }),
      "Muon: expected matrices, got parameter 'first.bias'"));
}

TEST_CASE("initialize: what is wrong in an optimizer or a schedule of a file names the place") {
  CHECK(contains(message_of<NotBuiltError>([&] {
                   Net net;
                   training::initialize(
                       net, {.config = training::JsonText{with("{\"type\": \"OneBitAdam\"}", "")}});
                 }),
                 "the configuration:2: optimizer: "));
  const std::string unknown = refused(with("{\"type\": \"AdamX\"}", ""));
  CHECK_MESSAGE(contains(unknown, "the configuration:2: optimizer: "), unknown);
  CHECK(refused(with(adam, "{\"type\": \"WarmUpLR\"}")) ==
        "the configuration:3: scheduler: there is no option 'WarmUpLR'; the nearest is 'WarmupLR'");
  CHECK(refused(with(adam, R"({"type": "WarmupLR", "params": {"warmup_num_step": 3}})")) ==
        "the configuration:3: scheduler.params.warmup_num_step: there is no option 'warmup_num_step'; the "
        "nearest is "
        "'warmup_num_steps'");
  CHECK(refused(with(adam, R"({"type": "WarmupLR", "params": {"warmup_num_steps": "few"}})")) ==
        "the configuration:3: scheduler.params.warmup_num_steps: expected a whole number, got \"few\"");
  CHECK(contains(refused(with(adam, R"({"type": "WarmupDecayLR", "params": {}})")),
                 "expected params with 'total_num_steps'"));
  CHECK(contains(refused(with(adam, R"({"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}})")),
                 "the program gives no max_steps"));
  CHECK(contains(refused(with(adam, R"({"type": "WarmupLR", "params": {"warmup_type": "cubic"}})")),
                 "expected \"log\" or \"linear\", got \"cubic\""));
  CHECK(contains(refused(with(R"({"type": "Adam", "params": {"lr": "fast"}})", "")), "lr"));
}

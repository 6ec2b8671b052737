#include "dist/train/trainer/trainer_arguments.h"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/train/callbacks/deepspeed_reports.h"
#include "dist/train/monitors/tensorboard.h"
#include "nn/functional.h"
#include "nn/layers/linear.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tests/support/environment.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

struct Regression : TaskOf<Regression> {
  nn::Linear& out = add<nn::Linear>("out", {.in = 2, .out = 1});
  Variable forward(const Variable& x) { return out(x); }
  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::mse_loss((*this)(batch.x), batch.y);
    log("loss", loss, {.on_step = true});
    return loss;
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, 1e-2)};
  }
};

/// Raises SIGTERM in the second batch.
struct RaiseInSecondBatch : Callback {
  void on_train_batch_start(Trainer&, Task&, const data::Batch&, int64_t index) override {
    if (index == 1) std::raise(SIGTERM);
  }
};

struct Parsed {
  std::optional<TrainerOptions> options;
  std::string out;
};

/// The options of a program of one epoch with these arguments.
Parsed parse(std::vector<std::string> arguments, std::ostream* out = nullptr) {
  std::vector<const char*> argv{"/usr/bin/program"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream text;
  auto options = trainer_arguments({.max_epochs = 1, .gradient_clip = 1.0}, static_cast<int>(argv.size()),
                                   argv.data(), out ? *out : text);
  return {std::move(options), text.str()};
}

void fit(const TrainerOptions& options) {
  Regression task;
  const Tensor x = Tensor::zeros({16, 2}, f32), y = Tensor::zeros({16, 1}, f32);
  Loaders data(LoaderSpec{std::make_shared<data::TensorDataset>(x, y), {.batch_size = 2}});
  Trainer trainer(options);
  trainer.fit(task, data);
}

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("trainer_arguments: flags change the program's options, and each has its range") {
  const auto options =
      parse({"--max-steps", "3", "--strategy=fsdp", "--precision", "bf16", "--fast-dev-run"}).options;
  REQUIRE(options.has_value());
  CHECK(options->max_epochs == 1);
  CHECK(options->max_steps == 3);
  CHECK(options->strategy.name() == "fsdp");
  CHECK(options->precision == PrecisionMode::bf16);
  CHECK(options->gradient_clip == 1.0);
  CHECK(options->fast_dev_run);
  CHECK(options->callbacks.empty());
  CHECK(contains(message_of<ConfigError>([] {
                   parse({"--accumulate", "0"});
                 }),
                 "--accumulate: expected a whole number of at least 1, got 0"));
  CHECK(contains(message_of<ConfigError>([] { parse({"--precison", "16"}); }), "--precision"));
  CHECK_THROWS_AS(trainer_arguments({.max_epochs = 1}, 0, nullptr, std::cout), ConfigError);
}

TEST_CASE("trainer_arguments: the best checkpoints are kept, and a run begins with the weights of one") {
  const TemporaryFolder folder;
  fit(*parse({"--out", folder / "run", "--checkpoint-interval", "1", "--keep", "1", "--monitor", "loss",
              "--keep-best", "3", "--async-save"})
           .options);
  const std::vector<int64_t> kept = dist::list_checkpoints(folder / "run");
  REQUIRE(kept.size() == 4);  // the three best, and the newest, which has the mean of the epoch
  CHECK(kept.back() == 8);
  const auto loss_of = [&](int64_t step) {
    return dist::read_validation_loss(folder / "run/" + dist::step_name(step)).value();
  };
  for (size_t i = 0; i < 3; ++i) CHECK(loss_of(kept[i]) < loss_of(8));
  CHECK(std::filesystem::exists(folder / "run/best"));
  const auto options =
      parse({"--init-from", folder / "run", "--limit-train-batches", "2", "--out", folder / "next"}).options;
  fit(*options);
  CHECK(dist::list_checkpoints(folder / "next") == std::vector<int64_t>{2});
  CHECK(contains(message_of<ConfigError>([&] {
                   fit(*parse({"--out", folder / "run"}).options);
                 }),
                 "expected a folder without checkpoints for a new run"));
}

TEST_CASE("trainer_arguments: a program's strategy with options stays, unless the flag names another one") {
  const auto strategy_of = [](std::vector<const char*> argv) {
    argv.insert(argv.begin(), "program");
    const auto options =
        trainer_arguments({.max_epochs = 1, .strategy = ShardingStrategy{.reduce_bucket_size = 7}},
                          static_cast<int>(argv.size()), argv.data(), std::cout);
    TrainingConfig config;
    options->strategy.apply(config, 1);
    return std::pair(config.strategy, config.reduce_bucket_size);
  };
  CHECK(strategy_of({}) == std::pair<dist::Strategy, int64_t>{dist::Strategy::full_shard, 7});
  CHECK(strategy_of({"--strategy", "ddp"}).first == dist::Strategy::no_shard);
}

TEST_CASE("trainer_arguments: a configuration of DeepSpeed takes the place of a strategy") {
  const TemporaryFolder folder;
  folder.write("ds.json",
               "{\"gradient_clipping\": 1.0, \"zero_optimization\": {\"stage\": 2},"
               " \"train_batch_size\": 4}");
  const auto options = parse({"--deepspeed-config", folder / "ds.json", "--max-steps", "2"}).options;
  CHECK(options->strategy.name() == folder / "ds.json");
  TrainingConfig config;
  options->strategy.apply(config, 2);
  CHECK(config.strategy == dist::Strategy::shard_grad_op);
  fit(*options);
  CHECK(contains(message_of<ConfigError>([&] {
                   parse({"--deepspeed-config", folder / "ds.json", "--strategy", "fsdp"});
                 }),
                 "expected strategy or deepspeed_config, got 'fsdp' and '"));
}

TEST_CASE("trainer_arguments: a configuration of DeepSpeed asks for lines of steps by its keys") {
  const TemporaryFolder folder;
  const auto printed = [&](const std::string& keys, std::vector<std::string> flags = {}) {
    folder.write("ds.json", "{\"train_batch_size\": 2" + keys + "}");
    flags.insert(flags.end(),
                 {"--deepspeed-config", folder / "ds.json", "--max-steps", "30", "--max-epochs=-1"});
    std::ostringstream out;
    fit(*parse(flags, &out).options);
    return out.str();
  };
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const std::string lines = printed(", \"steps_per_print\": 10");
  for (const char* step : {"step=10,", "step=20,", "step=30,"}) CHECK_MESSAGE(contains(lines, step), lines);
  CHECK(count(lines, "AvgSamplesPerSec=") == 3);
  CHECK(count(lines, "time (ms)") == 0);
  CHECK(count(printed(", \"steps_per_print\": 15, \"wall_clock_breakdown\": true"), "time (ms)") == 2);
  CHECK(count(printed(", \"wall_clock_breakdown\": true"), "time (ms)") == 3);  // DeepSpeed's default of 10
  CHECK(count(printed(", \"steps_per_print\": 10", {"--steps-per-print", "10"}), "step=") == 3);
  CHECK(printed(", \"wall_clock_breakdown\": false").empty());
  CHECK(printed("").empty());
  CHECK(count(printed("", {"--steps-per-print", "30"}), "AvgSamplesPerSec=") == 1);
  const auto refusal = [&](const std::string& keys, const std::vector<std::string>& flags = {}) {
    return message_of<ConfigError>([&] { printed(keys, flags); });
  };
  CHECK(refusal(", \"steps_per_print\": 10", {"--steps-per-print", "5"}) ==
        "trainer_arguments: steps_per_print 5: expected 10 (" + folder / "ds.json" + "), or the default");
  CHECK(printed(", \"steps_per_print\": 0").empty());
  CHECK(
      contains(refusal(", \"steps_per_print\": -1"), "ds.json:1: steps_per_print: expected a whole number"));
  CHECK(contains(refusal(", \"steps_per_print\": true"),
                 "ds.json:1: steps_per_print: expected a whole number"));
}

TEST_CASE("trainer_arguments: --explain and --help are written, and nothing is returned") {
  const Parsed explained = parse({"--seed", "7", "--explain"});
  CHECK_FALSE(explained.options.has_value());
  for (const char* part : {"flag --seed", "program", "max_epochs", "default"})
    CHECK_MESSAGE(contains(explained.out, part), explained.out);
  const Parsed helped = parse({"--help"});
  CHECK_FALSE(helped.options.has_value());
  CHECK(contains(helped.out, "--tensorboard"));
}

TEST_CASE("trainer_arguments: with the task and its data --explain has the plan, and else neither is made") {
  int made = 0;
  const auto task = [&] {
    ++made;
    return std::make_unique<Regression>();
  };
  const auto data = [&] {
    ++made;
    const Tensor x = Tensor::zeros({16, 2}, f32), y = Tensor::zeros({16, 1}, f32);
    return std::make_unique<Loaders>(
        LoaderSpec{std::make_shared<data::TensorDataset>(x, y), {.batch_size = 2}});
  };
  const auto call = [&](const char* flag) {
    const char* argv[] = {"program", "--accumulate", "3", flag};
    std::ostringstream out;
    const bool trains = trainer_arguments({}, 4, argv, out, task, data).has_value();
    return std::pair(trains, out.str());
  };
  const std::pair<bool, std::string> explained = call("--explain");
  CHECK_FALSE(explained.first);
  CHECK(made == 2);
  for (const char* part : {"flag --accumulate", "parameters            3\n", "3 a step, of 2 samples",
                           "bytes at the peak of a training step"})
    CHECK_MESSAGE(contains(explained.second, part), explained.second);
  CHECK_FALSE(call("--help").first);
  CHECK(call("--fast-dev-run") == std::pair(true, std::string()));
  CHECK(made == 2);
}

TEST_CASE(
    "trainer_arguments: the files that were asked for are written, and a run goes on from its checkpoint") {
  const TemporaryFolder folder;
  std::ostringstream out;
  const auto first =
      parse({"--max-steps", "4", "--out", folder / "out", "--checkpoint-interval", "2", "--metrics",
             folder / "run.jsonl", "--csv", folder / "run.csv", "--log-every", "1", "--trace",
             folder / "trace.json", "--trace-steps", "2:3", "--steps-per-print", "2"},
            &out);
  fit(*first.options);
  CHECK(std::filesystem::exists(folder / "out/step-00000004"));
  CHECK(contains(content(folder / "run.jsonl"), "loss"));
  CHECK(contains(content(folder / "run.jsonl"), "checkpoint_interval"));
  CHECK(contains(content(folder / "run.csv"), "loss"));
  CHECK(contains(content(folder / "trace.json"), "traceEvents"));
  CHECK_MESSAGE(contains(out.str(), "step=2, AvgSamplesPerSec="), out.str());
  CHECK_MESSAGE(contains(out.str(), "profile of 2 steps"), out.str());
  const auto second = parse({"--max-steps", "6", "--out", folder / "out", "--resume", folder / "out"});
  fit(*second.options);
  CHECK(std::filesystem::exists(folder / "out/step-00000006"));
}

TEST_CASE("trainer_arguments: blocks of a configuration of DeepSpeed become monitors and a profile") {
  const TemporaryFolder folder;
  const std::string board = tensorboard_is_built()
                                ? text(", \"tensorboard\": {\"enabled\": true, \"output_path\": \"",
                                       folder / "board", "\", \"job_name\": \"small\"}")
                                : std::string();
  folder.write(
      "ds.json",
      text("{\"train_batch_size\": 2", board, ", \"csv_monitor\": {\"enabled\": true, \"output_path\": \"",
           folder / "tables", "\"}, \"flops_profiler\": {\"enabled\": true, \"profile_step\": 2}}"));
  std::ostringstream out;
  fit(*parse({"--deepspeed-config", folder / "ds.json", "--log-every", "1"}, &out).options);
  CHECK(contains(content(folder / "tables/DeepSpeedJobName/metrics.csv"), "loss"));
  CHECK(std::filesystem::exists(folder / "board/small") == tensorboard_is_built());
  CHECK_MESSAGE(contains(out.str(), "Profile Summary at step 2"), out.str());
  // A flag takes the place of a block, and a block that is not enabled asks for nothing.
  const auto with_flag =
      parse({"--deepspeed-config", folder / "ds.json", "--csv", folder / "own.csv"}).options;
  CHECK(with_flag->monitors.size() == (tensorboard_is_built() ? 2 : 1));
  folder.write("off.json",
               "{\"train_batch_size\": 2, \"csv_monitor\": {\"enabled\": false},"
               " \"flops_profiler\": {\"profile_step\": 2}}");
  const auto off = parse({"--deepspeed-config", folder / "off.json"}).options;
  CHECK(off->monitors.empty());
  CHECK(off->callbacks.empty());
  folder.write("bad.json", "{\"train_batch_size\": 2, \"flops_profiler\": {\"enabled\": 1}}");
  CHECK(contains(message_of<ConfigError>([&] {
                   parse({"--deepspeed-config", folder / "bad.json"});
                 }),
                 "bad.json:1: flops_profiler.enabled: expected true or false"));
}

TEST_CASE("a Trainer logs the keys of DeepSpeed for which its program has no callback") {
  std::vector<std::string> lines;
  TrainerOptions options{
      .max_epochs = 1,
      .strategy = DeepSpeedStrategy{JsonText{"{\"train_batch_size\": 2, \"steps_per_print\": 5,"
                                             " \"wall_clock_breakdown\": true,"
                                             " \"flops_profiler\": {\"enabled\": true}}"}},
      .log = Logger([&](const LogRecord& record) { lines.push_back(record.message); })};
  fit(options);
  CHECK(lines == std::vector<std::string>{
                     "the configuration: steps_per_print, wall_clock_breakdown, flops_profiler: without "
                     "effect, since they need callbacks or monitors (add_deepspeed_reports)"});
  lines.clear();
  std::ostringstream out;
  add_deepspeed_reports(options, out);
  CHECK(options.callbacks.size() == 2);
  fit(options);
  CHECK(lines.empty());
}

TEST_CASE(
    "trainer_arguments: warnings of a configuration are written to stderr, unless the program has a sink") {
  const TemporaryFolder folder;
  folder.write("ds.json", "{\"train_batch_size\": 2, \"gradient_cliping\": 1.0}");
  const auto written = [&](const char* rules) {
    const Environment environment("TESSERA_LOGS", rules);
    std::ostringstream text;
    std::streambuf* const before = std::cerr.rdbuf(text.rdbuf());
    const auto options = parse({"--deepspeed-config", folder / "ds.json"}).options;
    { const Trainer trainer(*options); }
    std::cerr.rdbuf(before);
    return text.str();
  };
  const std::string warning = written(nullptr);
  CHECK_MESSAGE(contains(warning, "gradient_cliping: no key of DeepSpeed, kept for the program"), warning);
  CHECK(contains(warning, "the nearest is 'gradient_clipping'"));
  CHECK(written("-train").empty());
  std::string own;
  const char* argv[] = {"program"};
  const auto options = trainer_arguments(
      {.max_epochs = 1, .log = Logger([&](const LogRecord& record) { own += record.message; })}, 1, argv,
      std::cout);
  options->log.info("train.engine", "a message");
  CHECK(own == "a message");
}

TEST_CASE("trainer_arguments: a precision of 32 beside a configuration in half precision names both") {
  const TemporaryFolder folder;
  folder.write("ds.json", "{\"train_batch_size\": 2,\n \"bf16\": {\"enabled\": true}}");
  CHECK(message_of<ConfigError>([&] {
          Trainer(*parse({"--deepspeed-config", folder / "ds.json", "--precision", "32"}).options);
        }) == "Trainer: precision 32 (flag --precision): expected bf16 (" + folder / "ds.json" +
                  ":2), or the default");
  for (const std::vector<std::string>& flags : {std::vector<std::string>{}, {"--precision", "bf16"}}) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), {"--deepspeed-config", folder / "ds.json"});
    CHECK(Trainer(*parse(all).options).options().precision == PrecisionMode::bf16);
  }
  folder.write("ds.json", "{\"train_batch_size\": 2, \"bf16\": {\"enabled\": false}}");
  CHECK_NOTHROW(Trainer(*parse({"--deepspeed-config", folder / "ds.json", "--precision", "32"}).options));
}

TEST_CASE("trainer_arguments: a clipping of 0 or one micro-batch that is asked for does not give way") {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& keys, std::vector<std::string> arguments) {
    folder.write("ds.json", "{\"gradient_clipping\": 1.0,\n" + keys + "}");
    arguments.insert(arguments.end(), {"--deepspeed-config", folder / "ds.json"});
    return message_of<ConfigError>([&] { fit(*parse(arguments).options); });
  };
  const std::string place = " (" + folder / "ds.json";
  CHECK(refusal("\"train_batch_size\": 2", {"--gradient-clip", "0"}) ==
        "Trainer: gradient_clip 0 (flag --gradient-clip): expected 1" + place + ":1), or the default");
  const std::string two = "\"gradient_accumulation_steps\": 2, \"train_micro_batch_size_per_gpu\": 2";
  CHECK(refusal(two, {"--accumulate", "1"}) ==
        "Trainer: accumulate 1 (flag --accumulate): expected 2" + place + ":2), or the default");
  // Of the batch equation, with the loader's batches of 2.
  CHECK(refusal("\"train_batch_size\": 8", {"--accumulate=1"}) ==
        "Trainer: accumulate 1 (flag --accumulate): expected 4" + place +
            ", derived: train_batch_size / (micro_batch_size * ranks)), or the default");
  folder.write("own.json", "{\n\"accumulate\": 1,\n\"gradient_clip\": 0}");
  CHECK(refusal(two, {"--config", folder / "own.json", "--gradient-clip", "1"}) ==
        "Trainer: accumulate 1 (file " + folder / "own.json" + ":2): expected 2" + place +
            ":2), or the default");
  CHECK(contains(refusal("\"train_batch_size\": 2", {"--config", folder / "own.json"}),
                 "Trainer: gradient_clip 0 (file " + folder / "own.json" + ":3): expected 1"));
  const std::string none = "(nothing was thrown)";
  CHECK(refusal(two, {"--accumulate", "2", "--gradient-clip", "1"}) == none);
  CHECK(refusal(two, {}) == none);  // the defaults give way
  CHECK(refusal("\"train_batch_size\": 2", {"--accumulate", "1"}) == none);
}

TEST_CASE(
    "trainer_arguments: the options of the loss scale reach the engine, or agree with a configuration") {
  struct Scale : Callback {
    double scale = 0;
    void on_train_start(Trainer& trainer, Task&) override { scale = trainer.engine().loss_scale(); }
  };
  const auto scale_of = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--max-steps", "1"});
    TrainerOptions options = *parse(arguments).options;
    const auto scale = std::make_shared<Scale>();
    options.callbacks.push_back(scale);
    fit(options);
    return scale->scale;
  };
  CHECK(scale_of({"--precision", "16", "--loss-scale", "128"}) == 128);
  CHECK(scale_of({"--precision", "16", "--initial-scale-power", "5"}) == 32);
  const TemporaryFolder folder;
  folder.write("ds.json",
               "{\"train_batch_size\": 2, \"gradient_clipping\": 1.0,\n"
               "\"fp16\": {\"enabled\": true, \"loss_scale\": 64}}");
  CHECK(scale_of({"--deepspeed-config", folder / "ds.json"}) == 64);
  CHECK(message_of<ConfigError>([&] {
          scale_of({"--deepspeed-config", folder / "ds.json", "--loss-scale", "0"});
        }) == "Trainer: loss_scale 0 (flag --loss-scale): expected 64 (" + folder / "ds.json" +
                  ":2), or the default");
}

TEST_CASE("trainer_arguments: --stop-on-signals ends a run after its step, saved") {
  const TemporaryFolder folder;
  TrainerOptions options =
      *parse({"--stop-on-signals", "--out", folder / "run", "--checkpoint-interval", "100"}).options;
  CHECK(options.signals == std::vector<int>{SIGINT, SIGTERM});
  options.callbacks.push_back(std::make_shared<RaiseInSecondBatch>());
  Regression task;
  const Tensor x = Tensor::zeros({16, 2}, f32), y = Tensor::zeros({16, 1}, f32);
  Loaders data(LoaderSpec{std::make_shared<data::TensorDataset>(x, y), {.batch_size = 2}});
  Trainer trainer(options);
  trainer.fit(task, data);
  CHECK(trainer.interrupted() == SIGTERM);
  CHECK(dist::list_checkpoints(folder / "run") == std::vector<int64_t>{2});
}

TEST_CASE("trainer_arguments: without --stop-on-signals the signals are the program's") {
  const auto signals = [](std::vector<int> program, std::vector<const char*> argv) {
    argv.insert(argv.begin(), "program");
    return trainer_arguments({.max_epochs = 1, .signals = std::move(program)}, static_cast<int>(argv.size()),
                             argv.data(), std::cout)
        ->signals;
  };
  using Signals = std::vector<int>;
  CHECK(signals({}, {}) == Signals{});
  CHECK(signals({SIGUSR2}, {}) == Signals{SIGUSR2});
  CHECK(signals({SIGUSR2}, {"--stop-on-signals"}) == Signals{SIGUSR2});
  CHECK(signals({SIGUSR2}, {"--stop-on-signals=false"}) == Signals{});
  const Environment size("OMPI_COMM_WORLD_SIZE", "2"), number("OMPI_COMM_WORLD_RANK", "1");
  CHECK(signals({}, {"--stop-on-signals"}) == Signals{SIGINT, SIGTERM, SIGUSR1});
}

TEST_CASE("trainer_arguments: of a launcher's ranks the first alone writes --explain and --help") {
  const auto written = [](const char* rank, const char* flag) {
    const Environment size("OMPI_COMM_WORLD_SIZE", "2"), number("OMPI_COMM_WORLD_RANK", rank);
    const Parsed parsed = parse({flag});
    CHECK_FALSE(parsed.options.has_value());
    return parsed.out;
  };
  for (const char* flag : {"--explain", "--help"}) {
    CHECK_FALSE(written("0", flag).empty());
    CHECK(written("1", flag).empty());
  }
}

#include "dist/train/config/training_fields.h"

#include <doctest/doctest.h>

#include <set>

#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;

namespace {

void check_sizes(BatchSizes given, int64_t ranks, BatchSizes expected) {
  const BatchSizes sizes = resolve_batch_sizes(given, ranks);
  CAPTURE(given.train_batch_size);
  CAPTURE(given.micro_batch_size);
  CAPTURE(given.accumulation_steps);
  CHECK(sizes.train_batch_size == expected.train_batch_size);
  CHECK(sizes.micro_batch_size == expected.micro_batch_size);
  CHECK(sizes.accumulation_steps == expected.accumulation_steps);
}

std::string refusal(BatchSizes given, int64_t ranks) {
  return message_of<ConfigError>([&] { resolve_batch_sizes(given, ranks); });
}

}  // namespace

TEST_CASE("batch sizes: any two give the third, one alone means one micro-batch") {
  check_sizes({256, 1, 0}, 8, {256, 1, 32});
  check_sizes({256, 0, 32}, 8, {256, 1, 32});
  check_sizes({0, 4, 2}, 8, {64, 4, 2});
  check_sizes({256, 4, 8}, 8, {256, 4, 8});
  check_sizes({256, 0, 0}, 8, {256, 32, 1});
  check_sizes({0, 4, 0}, 8, {32, 4, 1});
  check_sizes({16384, 2048, 0}, 8, {16384, 2048, 1});
}

TEST_CASE("batch sizes: contradictions and too few samples are errors with the numbers") {
  CHECK(refusal({256, 1, 16}, 8) ==
        "train_batch_size 256: expected micro_batch_size * accumulation_steps * ranks = 1 * 16 * 8 = 128");
  CHECK(contains(refusal({100, 0, 0}, 8), "train_batch_size 100: expected"));
  CHECK(contains(refusal({100, 3, 0}, 8), "train_batch_size 100: expected"));
  CHECK(contains(refusal({8, 4, 0}, 8), "4 * 1 * 8 = 32"));
  CHECK(refusal({7, 0, 0}, 8) == "train_batch_size 7: expected at least a sample for each of 8 ranks");
  CHECK(contains(refusal({0, 0, 0}, 8), "got none"));
  CHECK(contains(refusal({0, 0, 4}, 8), "got accumulation_steps = 4 alone"));
}

TEST_CASE("training configuration: sizes are filled, and say by which rule") {
  Resolved<TrainingConfig> config(training_fields());
  config.set("train_batch_size", "256", {Source::flag, "--train-batch-size"});
  config.set("micro_batch_size", "1", {Source::flag, "--micro-batch-size"});
  resolve(config, 8);
  CHECK(config->accumulation_steps == 32);
  CHECK(to_string(config.origin("accumulation_steps")) ==
        "derived: train_batch_size / (micro_batch_size * ranks)");
  CHECK(to_string(config.origin("micro_batch_size")) == "flag --micro-batch-size");
}

TEST_CASE("training configuration: shard groups need a hybrid strategy and a divisor of the ranks") {
  const auto refused = [](const char* strategy, const char* group) {
    Resolved<TrainingConfig> config(training_fields());
    config.set("train_batch_size", "8", {});
    config.set("strategy", strategy, {});
    config.set("shard_group_size", group, {});
    return message_of<ConfigError>([&] { resolve(config, 4); });
  };
  CHECK(refused("hybrid_shard", "2") == "(nothing was thrown)");
  CHECK(contains(refused("full_shard", "2"), "expected a hybrid strategy"));
  CHECK(refused("hybrid_shard", "3") == "shard_group_size 3: expected a divisor of the 4 ranks");
}

TEST_CASE(
    "training configuration: every field has a name of its own, help, and a default within its limits") {
  std::set<std::string> names;
  const Resolved<TrainingConfig> config(training_fields());
  for (const FieldValue& field : config.values()) {
    CAPTURE(std::string(field.info.name));
    CHECK(names.insert(field.info.name).second);
    CHECK(std::string(field.info.help).size() > 5);
    Resolved<TrainingConfig> other(training_fields());
    CHECK_NOTHROW(other.set(field.info.name, field.initial, {Source::flag, "--flag"}));
  }
}

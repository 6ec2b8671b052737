#include <doctest/doctest.h>
#include <sys/resource.h>

#include <limits>

#include "tests/dist/checkpoint/checkpoint_fixture.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

/// Saves, with `keep` 1, a state that a load would refuse; returns the error.
std::string refused_save(const std::string& root, const TrainingState& state) {
  return refused([&] { save_checkpoint(root, state, small_run(2), {.keep = 1}); });
}

/// A tensor of this shape in one file, as boxes of one column each.
FileRecord columns(const Shape& shape) {
  FileRecord record{"model.safetensors", 0, 0, {}};
  for (int64_t column = 0; column < shape[1]; ++column) {
    TensorRange range{{0, column}, {shape[0], 1}, 0, shape[0]};
    record.chunks.push_back({{"model", "w"}, u8, shape, range, "w#" + std::to_string(column)});
  }
  return record;
}

}  // namespace

TEST_CASE("save: a state that a load would refuse is refused before older checkpoints are deleted") {
  struct Case {
    std::string what;
    void (*change)(TrainingState&);
  };
  const Case cases[] = {
      {"a step beyond the names of checkpoints",
       [](TrainingState& s) { s.step = 1'000'000'000'000'000'000; }},
      {"a negative position", [](TrainingState& s) { s.data_position = -1; }},
      {"a negative schedule step", [](TrainingState& s) { s.schedule_step = -1; }},
      {"negative good steps", [](TrainingState& s) { s.loss_scale.good_steps = -1; }},
      {"an infinite loss scale",
       [](TrainingState& s) { s.loss_scale.scale = std::numeric_limits<double>::infinity(); }},
      {"text that is not UTF-8", [](TrainingState& s) { s.model["vocabulary"] = "\xff"; }},
      {"a key that is not UTF-8", [](TrainingState& s) { s.run["\xc0\xaf"] = ""; }},
      {"an index beyond the limit",
       [](TrainingState& s) { s.run["notes"] = std::string(size_t{1} << 28, 'x'); }},
  };
  for (const Case& c : cases) {
    const TemporaryFolder folder;
    const std::string root = folder / "run", before = save_small(root, 1, 1);
    TrainingState state = state_at(2);
    c.change(state);
    CHECK_MESSAGE(refused_save(root, state) != "", c.what);
    CHECK_MESSAGE(list_checkpoints(root) == std::vector<int64_t>{1}, c.what);
    CHECK(find_checkpoint(root) == before);
    CheckpointReader(before).verify();
    CHECK(std::distance(std::filesystem::directory_iterator(root), {}) == 2);  // the checkpoint and `latest`
  }
}

TEST_CASE("save: a group or tensor that a load would refuse is refused, the checkpoint of its step stays") {
  const TemporaryFolder folder;
  const std::string root = folder / "run", saved = save_small(root, 1, 1);
  const auto refusal = [&](const std::string& group, const std::string& tensor) {
    const TensorGroup groups[] = {{group, {{tensor, Tensor::scalar(1.0f)}}}};
    return refused([&] { save_checkpoint(root, state_at(1), groups); });
  };
  CHECK(contains(refusal(".hidden", "w"), "is not the name of a file in the folder"));
  CHECK(contains(refusal("../step-00000001/model", "w"), "is not the name of a file in the folder"));
  CHECK(contains(refusal("model", "w\xff"), "is not UTF-8"));
  CHECK(contains(refusal("model", "__metadata__"), "a name of its own was expected"));
  const auto loaded = small_run(0);
  REQUIRE(refused([&] { load_checkpoint(CheckpointReader(saved), loaded); }) == "");
  CHECK(same_bits(loaded, small_run(1)));
}

TEST_CASE("coverage: its memory depends on the number of boxes, not on that of their rows") {
  const std::vector<FileRecord> tall{columns({int64_t{1} << 24, 2})}, tallest{columns({int64_t{1} << 50, 3})};
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  CHECK(assemble_tensors(tall, "x").size() == 1);
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 50'000);  // KiB; 24 bytes a row would be 800,000
  if (after.ru_maxrss - before.ru_maxrss > 50'000) return;
  CHECK(assemble_tensors(tallest, "x").size() == 1);
  std::vector<FileRecord> incomplete = tallest;
  incomplete[0].chunks.erase(incomplete[0].chunks.begin() + 1);
  CHECK(contains(refused([&] { assemble_tensors(incomplete, "x"); }), "element 1 is in no file"));
  incomplete[0].chunks.push_back(incomplete[0].chunks[0]);
  CHECK(contains(refused([&] { assemble_tensors(incomplete, "x"); }), "element 0 of"));
}

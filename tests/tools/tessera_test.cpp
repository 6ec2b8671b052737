#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "tensor/number_text.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"
#include "tests/dist/checkpoint/rank_state.h"
#include "tools/tessera/doctor.h"
#include "tools/tessera/text_table.h"

using namespace tessera;
using namespace tessera::tools;

namespace {

struct Outcome {
  int status;
  std::string out, err;
};

/// Starts the program itself, as a user would.
Outcome call(const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string command = "'" TESSERA_PROGRAM_DIR "/tessera' " + arguments + " > '" + (folder / "out") +
                              "' 2> '" + (folder / "err") + "' < /dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_bytes(folder / "out"),
          file_bytes(folder / "err")};
}

size_t lines_in(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("text_table: columns are aligned, numbers to the right") {
  CHECK(text_table({{"name", "bytes"}, {"a", "1,024"}, {"longer", "7"}}) ==
        "  name    bytes\n  a       1,024\n  longer      7\n");
  CHECK(with_commas(0) == "0");
  CHECK(with_commas(999) == "999");
  CHECK(with_commas(1115394) == "1,115,394");
  CHECK(with_commas(-1000) == "-1,000");
  CHECK(byte_text(1023) == "1023 B");
  CHECK(byte_text(1536) == "1.5 KiB");
  CHECK(byte_text(int64_t{5} << 30) == "5.0 GiB");
}

TEST_CASE("tessera checkpoint: inspect, verify and consolidate a run's latest") {
  const TemporaryFolder folder;
  const std::string saved = save_small(folder / "run", 1000, 7);
  const Outcome inspected = call("checkpoint inspect '" + (folder / "run") + "'");
  CHECK(inspected.status == 0);
  CHECK(contains(inspected.out, saved + ": 20 elements in the model"));
  CHECK(contains(inspected.out, "optimizer/exp_avg/fc.weight"));
  CHECK(contains(inspected.out, "step-00001000"));
  CHECK(inspected.err == "");
  const Outcome verified = call("checkpoint verify '" + saved + "'");
  CHECK(verified.status == 0);
  CHECK(contains(verified.out, saved + ": complete: 7 tensors at step 1000"));
  const Outcome written =
      call("checkpoint consolidate '" + saved + "' --out '" + (folder / "all.safetensors") + "'");
  CHECK(written.status == 0);
  CHECK(same_bits(io::SafetensorsFile(folder / "all.safetensors").read("fc.weight"), numbered({4, 3}, 7)));
}

TEST_CASE(
    "tessera checkpoint: a checkpoint of many ranks is inspected, verified and consolidated like any other") {
  const TemporaryFolder folder;
  const std::string saved = save_in_turn(folder / "run", {5, 1}, 2), output = folder / "all.safetensors";
  const Outcome inspected = call("checkpoint inspect '" + (folder / "run") + "'");
  CHECK(inspected.status == 0);
  CHECK(contains(inspected.out, saved + ": 90 elements in the model"));
  CHECK(contains(inspected.out, "model-rank-4.safetensors"));
  CHECK(contains(inspected.out, "3 files"));  // fc.weight, of 35 elements in shards of 17
  CHECK(call("checkpoint verify '" + saved + "'").status == 0);
  CHECK(call("checkpoint consolidate '" + saved + "' --out '" + output + "'").status == 0);
  RankState whole({0, 1}, 0);
  whole.train(0, 2);
  const io::SafetensorsFile file(output);
  const std::vector<dist::GroupShard> groups = whole.groups();  // the loop below refers to it
  for (const dist::TensorShard& tensor : groups[0].shards)
    CHECK(same_bits(file.read(tensor.name), tensor.tensor));
  const std::string third = saved + "/optimizer-rank-2.safetensors";
  std::string bytes = file_bytes(third);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(third, bytes);
  const Outcome verified = call("checkpoint verify '" + saved + "'");
  CHECK(verified.status == 3);
  CHECK(contains(verified.out, third + ": damaged"));
}

TEST_CASE("tessera checkpoint: a refused checkpoint ends with 3, one line, and writes nothing") {
  const TemporaryFolder folder;
  const std::string saved = save_small(folder / "run", 1, 7), weights = saved + "/model.safetensors";
  std::string bytes = file_bytes(weights);
  bytes[bytes.size() - 5] ^= 1;
  write_bytes(weights, bytes);
  const Outcome verified = call("checkpoint verify '" + saved + "'");
  CHECK(verified.status == 3);
  CHECK(contains(verified.out, weights + ": damaged"));
  CHECK(verified.err == "tessera: " + saved + ": 1 of 3 files is damaged\n");
  const Outcome written =
      call("checkpoint consolidate '" + saved + "' --out '" + (folder / "all.safetensors") + "'");
  CHECK(written.status == 3);
  CHECK(contains(written.err, "tessera: " + weights + ": its content is not what was written"));
  CHECK_FALSE(std::filesystem::exists(folder / "all.safetensors"));
  const Outcome absent = call("checkpoint inspect '" + (folder / "none") + "'");
  CHECK(absent.status == 3);
  CHECK(lines_in(absent.err) == 1);
}

TEST_CASE("tessera checkpoint verify: every damaged file is named, for any kind of damage") {
  const TemporaryFolder folder;
  const std::string saved = save_in_turn(folder / "run", {5, 1}, 3);
  const auto path = [&](const char* name) { return saved + "/" + name; };
  const std::string flipped = path("model-rank-0.safetensors"), cut = path("model-rank-1.safetensors"),
                    garbage = path("model-rank-2.safetensors"), gone = path("optimizer-rank-0.safetensors"),
                    good = path("optimizer-rank-1.safetensors");
  std::string bytes = file_bytes(flipped);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(flipped, bytes);
  write_bytes(cut, file_bytes(cut).substr(0, 50));
  write_bytes(garbage, "not a safetensors file at all");
  std::filesystem::remove(gone);
  const Outcome verified = call("checkpoint verify '" + (folder / "run") + "'");
  CHECK(verified.status == 3);
  for (const std::string& bad : {flipped, cut, garbage, gone})
    CHECK_MESSAGE(contains(verified.out, bad + ": damaged\n  " + bad), verified.out);
  CHECK(contains(verified.out, gone + ": cannot open: No such file"));
  CHECK(contains(verified.out, good + ": good"));
  CHECK(contains(verified.out, saved + "/meta.json: good"));
  CHECK(contains(verified.err, ": 4 of "));
  CHECK(lines_in(verified.err) == 1);
}

TEST_CASE("tessera checkpoint consolidate: a file that is not its own is not replaced without --force") {
  const TemporaryFolder folder;
  const std::string saved = save_small(folder / "run", 1, 7), output = folder / "out";
  const auto consolidate = [&](const std::string& to, const std::string& more = "") {
    return call("checkpoint consolidate '" + saved + "' --out '" + to + "' " + more);
  };
  write_bytes(output, "my notes");
  const Outcome refused = consolidate(output);
  CHECK(refused.status == 2);
  CHECK(lines_in(refused.err) == 1);
  CHECK(contains(refused.err, "--out " + output + ": a file is there that is not this model's"));
  CHECK(file_bytes(output) == "my notes");
  io::write_safetensors(output, std::vector<NamedTensor>{{"other", Tensor::scalar(1.0f)}});
  CHECK(consolidate(output).status == 2);  // another model
  CHECK(consolidate(output, "--force").status == 0);
  save_small(folder / "run", 1, 8);
  CHECK(consolidate(output).status == 0);  // its own, of another checkpoint
  CHECK(same_bits(io::SafetensorsFile(output).read("fc.weight"), numbered({4, 3}, 8)));
  const std::string weights = file_bytes(saved + "/model.safetensors");
  const Outcome inside = consolidate(saved + "/model.safetensors", "--force");
  CHECK(inside.status == 3);
  CHECK(contains(inside.err, "is in the checkpoint's own folder"));
  CHECK(file_bytes(saved + "/model.safetensors") == weights);
  std::filesystem::create_directory(folder / "folder");
  CHECK(consolidate(folder / "folder").status == 2);
}

TEST_CASE("tessera checkpoint: `latest` names a deleted checkpoint: both it and the one taken are printed") {
  const TemporaryFolder folder;
  const std::string root = folder / "run", saved = save_small(root, 1, 7);
  std::filesystem::remove_all(save_small(root, 2, 7));
  for (const char* command : {"inspect", "verify"}) {
    const Outcome outcome = call("checkpoint " + std::string(command) + " '" + root + "'");
    CHECK(outcome.status == 0);
    CHECK(contains(outcome.out, root + "/latest names step-00000002"));
    CHECK(contains(outcome.out, saved));
  }
}

TEST_CASE("tessera: bad arguments end with 2 and a suggestion") {
  Outcome outcome = call("checkpoint inspct x");
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.err, "did you mean 'inspect'?"));
  outcome = call("checkpoint consolidate x --ot y");
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.err, "unknown flag '--ot'; did you mean '--out'?"));
  CHECK(call("checkpoint inspect").status == 2);
  CHECK(call("").status == 2);
  for (const char* help : {"--help", "checkpoint --help", "checkpoint inspect --help",
                           "checkpoint verify --help", "checkpoint consolidate --help", "doctor --help"})
    CHECK(call(help).status == 0);
}

TEST_CASE("tessera schedule: the program prints the default schedule; bad flags end with 2 and one line") {
  const Outcome shown = call("schedule");
  CHECK(shown.status == 0);
  CHECK(contains(shown.out, "1f1b: 4 stages on 4 ranks, 8 micro-batches, 22 slots\n"));
  CHECK(shown.err == "");
  for (const char* flags : {"--kind zbv", "--stages 0", "--from-csv none.csv", "--kind gpipe --chunks 2"}) {
    CAPTURE(flags);
    const Outcome refused = call("schedule " + std::string(flags));
    CHECK(refused.status == 2);
    CHECK(refused.out == "");
    CHECK(lines_in(refused.err) == 1);
  }
  CHECK(contains(call("schedule --from-csv x --stages 3").err, "--stages excludes --from-csv"));
}

TEST_CASE("tessera doctor: lists what was built in and what the machine has") {
  const std::string lines = report(examine());
  for (const char* label :
       {"kernels for:", "oneDNN:", "MPI:", "CUDA:", "cores of this process:", "processor time allowed:",
        "instruction set of the processor:", "limit:", "instruction set in use:", "f32 matrix products:",
        "bf16 matrix products:", "transparent huge pages:", "total:", "/dev/shm:", "tiny Shakespeare:"})
    CHECK(contains(lines, label));
  CHECK(report({{"a group", {{"thing", "absent", "install it"}}}}) ==
        "a group\n  thing:  absent\nadvice\n  thing: install it\n");
  CHECK(report({{"a group", {{"thing", "there", ""}}}}) == "a group\n  thing:  there\nnothing is missing\n");
}

TEST_CASE("tessera doctor: threads by TESSERA_NUM_THREADS, and the errors in it") {
  const auto threads_with = [](const char* value) {
    setenv("TESSERA_NUM_THREADS", value, 1);
    const auto outcome = call("doctor");
    unsetenv("TESSERA_NUM_THREADS");
    CHECK(outcome.status == 0);
    return outcome.out;
  };
  CHECK(contains(threads_with("1"), "1, by TESSERA_NUM_THREADS\n"));
  const std::string many = threads_with("3000");
  CHECK(contains(many, "3000, by TESSERA_NUM_THREADS\n"));
  CHECK(contains(many, "threads: more than there are cores"));
  CHECK(contains(threads_with("two"), "threads: TESSERA_NUM_THREADS: expected a number of threads"));
}

TEST_CASE("tessera doctor: instruction sets up to TESSERA_ISA_MAX, and the errors in it") {
  const auto sets_with = [](const char* value) {
    setenv("TESSERA_ISA_MAX", value, 1);
    const auto outcome = call("doctor");
    unsetenv("TESSERA_ISA_MAX");
    CHECK(outcome.status == 0);
    return outcome.out;
  };
  const std::string lowest = sets_with("baseline");
  for (const char* line : {"baseline, by TESSERA_ISA_MAX\n", "instruction set in use:            baseline\n",
                           "through f32\n", " baseline\n"})
    CHECK(contains(lowest, line));
  CHECK_FALSE(contains(lowest, "with avx"));
  CHECK(contains(sets_with("sse2"),
                 "limit: TESSERA_ISA_MAX: expected baseline, avx2, avx512, avx512_bf16 or amx, got 'sse2'"));
}

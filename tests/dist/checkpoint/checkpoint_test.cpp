#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "dist/checkpoint/consolidate.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"

using namespace tessera;
using namespace tessera::dist;

TEST_CASE("checkpoint: tensors and training state are loaded as they were saved, bit for bit") {
  const TemporaryFolder folder;
  TrainingState state = state_at(1000);
  state.validation_loss = 0.1 + 0.2;  // a double of 17 digits
  const std::string saved = save_checkpoint(folder / "run", state, small_run(7));
  CHECK(saved == (folder / "run/step-00001000"));
  CHECK(find_checkpoint(folder / "run") == saved);
  CHECK(find_checkpoint(saved) == saved);
  CHECK(find_checkpoint(folder / "run/best") == saved);
  const CheckpointReader reader(saved);
  CHECK(reader.state() == state);
  const auto loaded = small_run(1);
  load_checkpoint(reader, loaded);
  CHECK(same_bits(loaded, small_run(7)));
}

TEST_CASE("checkpoint: a group can be loaded alone, and into a view") {
  const TemporaryFolder folder;
  const CheckpointReader reader(save_small(folder.path(), 1, 7));
  const Tensor wide = Tensor::zeros({3, 4}, f32);
  std::vector<TensorGroup> model{small_run(1)[0]};
  model[0].tensors[0].tensor = wide.transpose(0, 1);
  load_checkpoint(reader, model);
  CHECK(wide.data<float>()[1] == 7003.0f);  // element (1, 0) of the weight
  CHECK(wide.data<float>()[4] == 7001.0f);
}

TEST_CASE("checkpoint: missing, unexpected and different tensors are refused before anything is written") {
  const TemporaryFolder folder;
  const CheckpointReader reader(save_small(folder.path(), 1, 7));
  auto refusal = [&](auto change) {
    auto groups = small_run(1);
    change(groups);
    auto untouched = small_run(1);
    change(untouched);
    const std::string message = refused([&] { load_checkpoint(reader, groups); });
    CHECK(same_bits(groups, untouched));
    return message;
  };
  using Groups = std::vector<TensorGroup>;
  CHECK(contains(refusal([](Groups& g) {
                   g[1].tensors.push_back({"more", Tensor::scalar(1.0f)});
                 }),
                 "has no tensor 'optimizer/more'"));
  CHECK(contains(refusal([](Groups& g) { g[0].tensors.pop_back(); }),
                 "has an unexpected tensor 'model/mask', (3,) bool"));
  CHECK(contains(refusal([](Groups& g) {
                   g[0].tensors[0].tensor = Tensor::zeros({3, 4}, f32);
                 }),
                 "tensor 'model/fc.weight': expected (3, 4) f32, the checkpoint has (4, 3) f32"));
  CHECK(
      contains(refusal([](Groups& g) {
                 g[1].tensors[0].tensor = Tensor::zeros({4, 3}, bf16);
               }),
               "tensor 'optimizer/exp_avg/fc.weight': expected (4, 3) bf16, the checkpoint has (4, 3) f32"));
}

TEST_CASE("checkpoint: every changed byte of every file is detected, and nothing is loaded") {
  const TemporaryFolder folder;
  const std::string saved = save_small(folder.path(), 1, 7);
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "meta.json"}) {
    const std::string path = saved + "/" + name, good = file_bytes(path);
    for (size_t i = 0; i < good.size(); i += name[1] == 'e' ? 37 : 1) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1);
      write_bytes(path, bad);
      const auto groups = small_run(1);
      const std::string message = refused([&] { load_checkpoint(CheckpointReader(saved), groups); });
      CHECK(contains(message, path));
      CHECK(same_bits(groups, small_run(1)));
    }
    write_bytes(path, good);
  }
  CHECK(refused([&] { load_checkpoint(CheckpointReader(saved), small_run(1)); }) == "");
}

TEST_CASE("checkpoint: truncated, missing and foreign files are refused by name") {
  const TemporaryFolder folder;
  const std::string saved = save_small(folder.path(), 1, 7);
  const std::string weights = saved + "/model.safetensors", meta = saved + "/meta.json";
  const std::string good = file_bytes(weights), good_meta = file_bytes(meta);
  auto refusal = [&] { return refused([&] { CheckpointReader reader(saved); }); };
  write_bytes(weights, good.substr(0, good.size() - 3));
  CHECK(contains(refusal(), weights + ": truncated"));
  write_bytes(weights, "");
  CHECK(contains(refusal(), weights + ": not a safetensors file"));
  std::filesystem::copy_file(saved + "/optimizer.safetensors", weights,
                             std::filesystem::copy_options::overwrite_existing);
  CHECK(contains(refusal(), weights + ": expected"));
  std::filesystem::remove(weights);
  CHECK(contains(refusal(), weights + ": cannot open: No such file"));
  write_bytes(weights, good);
  write_bytes(meta, good_meta.substr(0, good_meta.size() / 2));
  CHECK(contains(refusal(), meta + ": not strict JSON"));
  write_bytes(meta, R"({"model_type": "gpt2"})");
  CHECK(contains(refusal(), meta + ": has no 'format'"));
  std::string newer = good_meta;
  newer.replace(newer.find("\"version\" : 1"), 13, "\"version\" : 2");
  write_bytes(meta, newer);
  CHECK(contains(refusal(), meta + ": expected version 1, got 2"));
}

TEST_CASE("checkpoint: NaN is refused with the parameter's name, when saving and when loading") {
  const TemporaryFolder folder;
  const std::string saved = save_small(folder.path(), 1, 7);
  auto groups = small_run(1);
  groups[0].tensors[0].tensor.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  const std::string message = refused([&] { save_checkpoint(folder.path(), state_at(2), groups); });
  CHECK(contains(message, "tensor 'fc.weight': element 5"));
  CHECK(contains(message, "is NaN: not saved"));
  CHECK(find_checkpoint(folder.path()) == saved);
  CHECK(list_checkpoints(folder.path()) == std::vector<int64_t>{1});

  // A checkpoint with NaN and right hashes, as another program might write it.
  CheckpointMeta meta = parse_checkpoint_meta(file_bytes(saved + "/meta.json"), "meta");
  std::vector<NamedTensor> tensors = groups[0].tensors;
  meta.files[0].xxh3 = io::write_safetensors(saved + "/model.safetensors", tensors, {{"format", "pt"}});
  write_bytes(saved + "/meta.json", to_json(meta));
  const auto loaded = small_run(3);
  CHECK(contains(refused([&] { load_checkpoint(CheckpointReader(saved), loaded); }),
                 "model.safetensors: tensor 'fc.weight': element 5 is NaN"));
  CHECK(same_bits(loaded, small_run(3)));
}

TEST_CASE("checkpoint: NaN is found in every floating type, and infinity is accepted") {
  const TemporaryFolder folder;
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  auto refusal = [&](const Tensor& tensor) {
    const TensorGroup groups[] = {{"model", {{"x", tensor}}}};
    return refused([&] { save_checkpoint(folder.path(), state_at(1), groups); });
  };
  CHECK(refusal(Tensor::from<double>({0, -nan})) != "");
  CHECK(refusal(Tensor::from<float>({0, nan})) != "");
  CHECK(refusal(Tensor::from<bfloat16>({bfloat16(0.f), bfloat16(nan)})) != "");
  CHECK(refusal(Tensor::from<float16>({float16(0.f), float16(nan)})) != "");
  CHECK(refusal(Tensor::from<double>({-infinity})) == "");
  CHECK(refusal(Tensor::from<float>({infinity})) == "");
  CHECK(refusal(Tensor::from<bfloat16>({bfloat16(-infinity)})) == "");
  CHECK(refusal(Tensor::from<float16>({float16(infinity)})) == "");
  CHECK(refusal(Tensor::from<int64_t>({-1})) == "");
}

TEST_CASE("consolidate: one file with the model's names, metadata and bits") {
  const TemporaryFolder folder;
  const CheckpointReader reader(save_small(folder.path(), 1, 7));
  consolidate(reader, folder / "model.safetensors");
  const io::SafetensorsFile file(folder / "model.safetensors");
  CHECK(file.metadata() == io::Metadata{{"format", "pt"}});
  CHECK(file.entries().size() == 5);
  CHECK(same_bits(file.read("fc.weight"), numbered({4, 3}, 7)));
  CHECK(
      contains(refused([&] { consolidate(reader, folder / "x", "ema"); }), "has no tensors in group 'ema'"));
}

TEST_CASE("inspect and verify_files: the content of a checkpoint, and the problem of each file") {
  const TemporaryFolder folder;
  const std::string saved = save_small(folder.path(), 1, 7);
  const CheckpointReader reader(saved);
  const CheckpointSummary summary = inspect(reader);
  CHECK(summary.elements == 12 + 4 + 1 + 0 + 3);
  CHECK(summary.tensors.size() == 7);
  CHECK(to_string(summary.tensors[1].id) == "model/fc.bias");
  CHECK(summary.tensors[1].bytes == 16);
  CHECK(summary.tensors[1].files == std::vector<std::string>{"model.safetensors"});
  CHECK(summary.files.size() == 2);
  CHECK(summary.bytes == static_cast<int64_t>(std::filesystem::file_size(saved + "/model.safetensors") +
                                              std::filesystem::file_size(saved + "/optimizer.safetensors")));
  for (const FileVerdict& verdict : verify_files(saved)) CHECK(verdict.problem == "");
  std::string bytes = file_bytes(saved + "/optimizer.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(saved + "/optimizer.safetensors", bytes);
  const std::vector<FileVerdict> verdicts = verify_files(saved);
  REQUIRE(verdicts.size() == 3);
  CHECK(verdicts[0].problem == "");
  CHECK(verdicts[2].name == "meta.json");
  CHECK(verdicts[2].problem == "");
  CHECK(contains(verdicts[1].problem,
                 "optimizer.safetensors: its content is not what was written: expected xxh3"));
}

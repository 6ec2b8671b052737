#include "nn/save.h"

#include <doctest/doctest.h>

#include <vector>

#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "tensor/io/safetensors.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;

namespace {

/// Two layers with one weight, and a buffer.
struct Tied : nn::Module {
  nn::Linear& in = add<nn::Linear>("in", {.in = 2, .out = 2});
  nn::Linear& out = add<nn::Linear>("out", {.in = 2, .out = 2, .bias = false});
  Variable& head = share_parameter("head", out.weight);
  Variable& scale = buffer("scale", {2}, init::constant(0.5));
  std::string kind() const override { return "Tied"; }
};

std::vector<float> values(const Tensor& x) {
  return {x.data<float>(), x.data<float>() + x.numel()};
}

std::vector<std::string> names(const nn::StateDict& state) {
  std::vector<std::string> list;
  for (const NamedTensor& entry : state) list.push_back(entry.name);
  return list;
}

void materialize(Tied& module, uint64_t seed) {
  nn::materialize(module, cpu(), seed);
}

}  // namespace

TEST_CASE("save: a module is loaded with the same bits, tied weights once") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  Tied model, copy;
  materialize(model, 1);
  materialize(copy, 2);
  model.scale.value().data<float>()[1] = -3;
  nn::save(model, path);
  CHECK(names(nn::read_state_dict(path)) ==
        std::vector<std::string>{"head", "in.weight", "in.bias", "scale"});
  CHECK(values(copy.head.value()) != values(model.head.value()));
  nn::load(copy, path);
  CHECK(values(copy.out.weight.value()) == values(model.out.weight.value()));
  CHECK(values(copy.in.weight.value()) == values(model.in.weight.value()));
  CHECK(values(copy.in.bias->value()) == values(model.in.bias->value()));
  CHECK(values(copy.scale.value()) == std::vector<float>{0.5f, -3});
}

TEST_CASE("save and load: by PyTorch's names, without the namespace of modules") {
  const TemporaryFolder folder;
  Tied model, copy;
  materialize(model, 1);
  materialize(copy, 2);
  save(model.state_dict(), folder / "model.pt");
  copy.load_state_dict(load(folder / "model.pt"));
  CHECK(values(copy.out.weight.value()) == values(model.out.weight.value()));
  load(copy, folder / "model.pt");
  std::vector<std::string> listed;
  for (auto& [name, tensor] : model.state_dict()) {
    listed.push_back(name);
    CHECK(tensor.defined());
  }
  CHECK(listed == names(model.state_dict()));
  nn::StateDict state = model.state_dict();
  for (auto& [name, tensor] : state) name = "ema." + name;
  CHECK(state[0].name == "ema.head");
  const auto [name, tensor] = state[0];
  CHECK(tensor.shares_storage(model.head.value()));
}

TEST_CASE("load: tied weights are found under either name, or under both with equal values") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  Tied model;
  materialize(model, 1);
  const nn::StateDict others = {{"in.weight", Tensor::zeros({2, 2}, f32)},
                                {"in.bias", Tensor::zeros({2}, f32)},
                                {"scale", Tensor::zeros({2}, f32)}};
  const Tensor weight = Tensor::from({1.0f, 2.0f, 3.0f, 4.0f}, {2, 2});
  for (const std::vector<std::string>& given :
       {std::vector<std::string>{"head"}, {"out.weight"}, {"head", "out.weight"}}) {
    CAPTURE(given.size());
    materialize(model, 2);
    nn::StateDict state = others;
    for (const std::string& name : given) state.push_back({name, weight});
    io::write_safetensors(path, state);
    nn::load(model, path);
    CHECK(values(model.head.value()) == values(weight));
    CHECK(values(model.out.weight.value()) == values(weight));
  }

  materialize(model, 3);
  const std::vector<float> before = values(model.in.weight.value());
  nn::StateDict state = others;
  state.push_back({"head", weight});
  state.push_back({"out.weight", Tensor::zeros({2, 2}, f32)});
  io::write_safetensors(path, state);
  CHECK_THROWS_WITH_AS(nn::load(model, path),
                       doctest::Contains("'head' and 'out.weight' are one parameter of Tied"), ValueError);
  io::write_safetensors(path, others);
  CHECK_THROWS_WITH_AS(nn::load(model, path), doctest::Contains("'head' (2, 2) is missing"), ValueError);
  CHECK(values(model.in.weight.value()) == before);
  nn::load(model, path, /*strict=*/false);
  CHECK(values(model.in.weight.value()) == std::vector<float>(4, 0));
}

TEST_CASE("save and load: in mixed precision the f32 masters; the rounded parameters are updated") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  nn::Linear model({.in = 3, .out = 2}), copy({.in = 3, .out = 2});
  for (nn::Linear* each : {&model, &copy}) {
    nn::materialize(*each, cpu(), each == &model ? 1 : 2);
    nn::use_mixed_precision(*each, bf16);
  }
  nn::save(model, path);
  CHECK(io::SafetensorsFile(path).entry("weight").dtype == f32);
  nn::load(copy, path);
  const auto bits = [](const nn::Linear& layer) {
    const auto* begin = static_cast<const uint16_t*>(layer.weight.value().raw_data());
    return std::vector<uint16_t>(begin, begin + layer.weight.numel());
  };
  CHECK(bits(copy) == bits(model));
  CHECK(values(copy.state_dict()[0].tensor) == values(model.state_dict()[0].tensor));
}

TEST_CASE("save and load: errors name the parameter or path, and an existing file stays") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  write_bytes(path, "no tensors");
  Tied model;
  CHECK_THROWS_WITH_AS(nn::save(model, path), doctest::Contains("'head' is on meta; materialize"),
                       DeviceError);
  CHECK(file_bytes(path) == "no tensors");
  materialize(model, 1);
  CHECK_THROWS_WITH_AS(nn::load(model, path), doctest::Contains(path.c_str()), CheckpointError);
  CHECK_THROWS_WITH_AS(nn::load(model, folder / "missing"), doctest::Contains("missing"), CheckpointError);
  CHECK_THROWS_AS(nn::save(model, folder / "no/folder"), CheckpointError);
}

TEST_CASE(
    "load: without strict, a tensor of a dtype that the library lacks does not matter where it is not asked "
    "for") {
  const TemporaryFolder folder;
  std::string header = R"({"weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
                       R"("zero_point":{"dtype":"I8","shape":[1],"data_offsets":[4,5]}})";
  const uint64_t length = header.size();
  const float weight = 2.5f;
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(&weight), sizeof weight);
  bytes += '\x07';
  const std::string path = folder.write("quantized.safetensors", bytes);
  nn::Linear layer({.in = 1, .out = 1, .bias = false});
  nn::materialize(layer, cpu(), 1);
  CHECK_THROWS_WITH_AS(nn::load(layer, path), doctest::Contains("I8"), CheckpointError);
  nn::load(layer, path, /*strict=*/false);
  CHECK(layer.weight.value().item() == 2.5);
}

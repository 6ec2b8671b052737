// Loading by names, buffers with given or computed values, and averages, as PyTorch's
// (make_module_goldens.py).

#include "nn/state_dict.h"

#include <doctest/doctest.h>

#include <set>

#include "nn/average.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "nn/save.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tests/nn/golden_net.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace module_goldens;

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : " ") + name;
  return all;
}

std::vector<float> values(const Tensor& x) {
  const Tensor t = x.contiguous();
  return {t.data<float>(), t.data<float>() + t.numel()};
}

/// PyTorch's case: two names missing, one unexpected.
nn::StateDict changed(const nn::StateDict& state) {
  nn::StateDict list;
  for (const NamedTensor& entry : state)
    if (entry.name != "fc1.bias" && entry.name != "blocks.2.weight") list.push_back(entry);
  list.push_back({"head.weight", Tensor::zeros({1}, f32)});
  return list;
}

struct Tables : nn::Layer<Tables> {
  std::shared_ptr<int> calls = std::make_shared<int>(0);
  Variable& given = buffer("given", Tensor::from<float>({1, 2, 3}, {3}));
  Variable& cosines = buffer(
      "cosines",
      [calls = calls](Device device) { return ++*calls, ops::cos(ops::arange(0, 4, 1, f32, device)); },
      false);
  Variable& plain = buffer("plain", [] { return Tensor::from<int64_t>({7, 8}, {2}); });
};

}  // namespace

TEST_CASE("load_state_dict: names that do not fit, without strict returned as PyTorch returns them") {
  Net net;
  nn::materialize(net, cpu(), 1);
  const nn::StateDict state = changed(net.state_dict());
  const nn::LoadResult result = net.load_state_dict(state, /*strict=*/false);
  CHECK(joined(result.missing_keys) == golden("missing_keys"));
  CHECK(joined(result.unexpected_keys) == golden("unexpected_keys"));
  CHECK(net.load_state_dict(net.state_dict()).missing_keys.empty());
  const TemporaryFolder folder;
  nn::save(state, folder / "state.safetensors");
  const nn::LoadResult loaded = nn::load(net, folder / "state.safetensors", /*strict=*/false);
  CHECK(joined(loaded.missing_keys) == golden("missing_keys"));
  CHECK(joined(loaded.unexpected_keys) == golden("unexpected_keys"));
}

TEST_CASE("load_state_dict: the error lists every entry that does not fit") {
  Net net;
  nn::materialize(net, cpu(), 1);
  nn::StateDict state = changed(net.state_dict());
  for (NamedTensor& entry : state)
    if (entry.name == "fc1.weight") entry.tensor = Tensor::zeros({4, 5}, f32);
  const std::string message = message_of<ValueError>([&] { net.load_state_dict(state); });
  CHECK(message ==
        "load_state_dict of Net: 4 entries do not fit\n"
        "  'fc1.bias' (4,) is missing\n"
        "  'blocks.2.weight' (4, 4) is missing\n"
        "  unexpected 'head.weight': there is no such parameter or buffer\n"
        "  'fc1.weight' expects (4, 3), got (4, 5)");
  CHECK_THROWS_WITH_AS(net.load_state_dict(state, false),
                       "load_state_dict of Net: 'fc1.weight' expects (4, 3), got (4, 5)", ShapeError);
  Net on_meta;
  CHECK_THROWS_WITH_AS(on_meta.load_state_dict(net.state_dict()), doctest::Contains("materialize the module"),
                       DeviceError);
}

TEST_CASE("buffers: given and computed values are there after materialize, and not before") {
  Tables tables;
  CHECK(tables.given.value().is_meta());
  CHECK(tables.cosines.value().is_meta());
  CHECK(tables.cosines.shape() == Shape{4});
  CHECK(tables.plain.dtype() == i64);
  CHECK(*tables.calls == 1);  // on meta
  nn::materialize(tables, cpu(), 1);
  CHECK(*tables.calls == 2);
  CHECK(values(tables.given.value()) == std::vector<float>{1, 2, 3});
  CHECK(values(tables.cosines.value())[1] == doctest::Approx(0.5403023));
  CHECK(tables.plain.value().data<int64_t>()[1] == 8);
  CHECK(tables.state_dict().size() == 2);  // the cosines are not persistent
  CHECK(tables.named_buffers().size() == 3);
  CHECK(!tables.given.requires_grad());

  Tables half;
  half.to(bf16);
  nn::materialize(half, cpu(), 1);
  CHECK(half.cosines.dtype() == bf16);
  CHECK(static_cast<float>(half.cosines.value().data<bfloat16>()[0]) == 1.0f);
}

TEST_CASE("buffers: values that are not there, or of another shape later, are refused") {
  struct OnMeta : nn::Layer<OnMeta> {
    Variable& table = buffer("table", Tensor::empty({2}, f32, meta()));
  };
  CHECK_THROWS_WITH_AS(OnMeta(), doctest::Contains("OnMeta: buffer 'table' expects values"), ValueError);
  struct Changing : nn::Layer<Changing> {
    Variable& table =
        buffer("table", [](Device device) { return Tensor::zeros({device.is_meta() ? 2 : 3}, f32, device); });
  };
  Changing changing;
  CHECK_THROWS_WITH_AS(nn::materialize(changing, cpu(), 1), doctest::Contains("of shape (2,) at first"),
                       ValueError);
}

TEST_CASE("average: as torch.optim.swa_utils.AveragedModel with an EMA, its state under the same names") {
  Net net;
  nn::materialize(net, cpu(), 1);
  fill_parameters(net);
  nn::ExponentialMovingAverage average(net, {.decay = 0.9});
  for (int step = 0; step < 4; ++step) {
    for (auto& [name, parameter] : net.named_parameters())
      parameter.value().copy_from(ops::add(ops::mul(parameter.value(), -1.5), 0.125 * step));
    average.update();
  }
  const nn::StateDict state = average.state_dict();
  std::set<std::string> names;
  for (const NamedTensor& entry : state) names.insert(entry.name);
  CHECK(joined({names.begin(), names.end()}) == golden("ema state"));
  CHECK(std::to_string(average.n_averaged()) == golden("ema n_averaged"));

  const std::vector<float> trained = values(net.fc1.weight.value());
  {
    const auto swapped = average.swap_in();
    check_close(net.fc1.weight.value(), "ema fc1.weight");
    check_close(net.blocks[1].bias->value(), "ema blocks.1.bias");
    CHECK_THROWS_WITH_AS(average.update(), doctest::Contains("while the module has the averages"),
                         ConfigError);
    CHECK_THROWS_AS(static_cast<void>(average.swap_in()), ConfigError);
    CHECK_THROWS_WITH_AS(average.copy_to_module(), doctest::Contains("has the averages already"),
                         ConfigError);
  }
  CHECK(values(net.fc1.weight.value()) == trained);

  const TemporaryFolder folder;
  nn::save(state, folder / "average.safetensors");
  nn::ExponentialMovingAverage resumed(net, {.decay = 0.9});
  resumed.load_state_dict(nn::read_state_dict(folder / "average.safetensors"));
  CHECK(resumed.n_averaged() == 4);
  net.scale.value().zero();
  {
    const auto swapped = resumed.swap_in();
    check_close(net.fc1.weight.value(), "ema fc1.weight");
  }
  CHECK(values(net.fc1.weight.value()) == trained);
  resumed.copy_to_module();
  check_close(net.fc1.weight.value(), "ema fc1.weight");
  CHECK(values(net.scale.value()) == std::vector<float>{0, 0});  // buffers are the module's
  CHECK_THROWS_WITH_AS(resumed.load_state_dict(net.state_dict()),
                       doctest::Contains("'n_averaged' () is missing"), ValueError);
}

TEST_CASE("average: of f32 masters in mixed precision; on meta and outside [0, 1] it is refused") {
  Net net;
  CHECK_THROWS_WITH_AS(nn::ExponentialMovingAverage{net}, doctest::Contains("call nn::materialize first"),
                       ConfigError);
  nn::materialize(net, cpu(), 1);
  CHECK_THROWS_WITH_AS(nn::ExponentialMovingAverage(net, {.decay = 1.5}), doctest::Contains("[0, 1]"),
                       ConfigError);
  fill_parameters(net);
  nn::use_mixed_precision(net, bf16);
  nn::ExponentialMovingAverage average(net, {.decay = 0.5});
  average.update();
  const Tensor master = net.parameters()[0].master;
  const float first = master.data<float>()[0];
  master.data<float>()[0] = first + 0.001f;  // below the precision of bf16
  average.update();
  const auto swapped = average.swap_in();
  CHECK(master.data<float>()[0] == doctest::Approx(first + 0.0005f).epsilon(1e-6));
  CHECK(static_cast<float>(net.fc1.weight.value().data<bfloat16>()[0]) ==
        doctest::Approx(-0.5).epsilon(0.01));
}

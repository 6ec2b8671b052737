// Inputs of checkpointed segments that are held elsewhere: gradients have the same bits, and memory is freed.

#include "autograd/recompute/stores.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/recompute/checkpoint.h"
#include "tensor/error.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;

namespace {

constexpr int64_t rows = 32, width = 64, value_bytes = rows * width * 4;
constexpr int layers = 6;

Tensor sines(const Shape& shape, double phase) {
  const Tensor t = Tensor::empty(shape, f32);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>(0.2 * std::sin(0.7 * static_cast<double>(i) + phase));
  return t;
}

/// Layers of two products, each checkpointed; nested in pairs where asked for.
struct Model {
  std::vector<Variable> weights;
  Model() {
    for (int i = 0; i < 2 * layers; ++i) weights.push_back(Variable::parameter(sines({width, width}, i)));
  }
  Variable layer(const Variable& x, int i) const {
    const auto at = [&](int k) { return weights[static_cast<size_t>(2 * i + k)]; };
    return x + matmul(matmul(x, at(0)) * matmul(x, at(0)), at(1));
  }
  Variable loss(const Tensor& input, bool is_nested = false) const {
    Variable x = input;
    for (int i = 0; i < layers; i += is_nested ? 2 : 1)
      x = checkpoint(
          [this, i, is_nested](const Variable& y) {
            if (!is_nested) return layer(y, i);
            const Variable z = checkpoint([this, i](const Variable& v) { return layer(v, i); }, y);
            return checkpoint([this, i](const Variable& v) { return layer(v, i + 1); }, z);
          },
          x);
    return sum(x * x);
  }
  std::vector<Tensor> take_gradients() const {
    std::vector<Tensor> gradients;
    for (const Variable& weight : weights) {
      gradients.push_back(weight.grad().value());
      weight.set_grad({});
    }
    return gradients;
  }
};

void check_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i)
    CHECK(std::memcmp(a[i].raw_data(), b[i].raw_data(), static_cast<size_t>(a[i].nbytes())) == 0);
}

int64_t activations() {
  return current_account()->count(MemoryCategory::activation).current;
}

}  // namespace

TEST_CASE("FileStore: ranges that are free again are used again, in any order of releases") {
  const TemporaryFolder folder;
  const FileStore store(folder.path());
  const SavingPolicy policy = store.policy();
  const auto value_of = [](int64_t k, int64_t elements) {
    const Tensor t = Tensor::empty({elements}, f32);
    for (int64_t i = 0; i < elements; ++i) t.data<float>()[i] = static_cast<float>(100 * k + i);
    return t;
  };
  // At most four of 64 values at once; lengths and the order of releases vary.
  std::vector<std::pair<int64_t, std::shared_ptr<ValueSource>>> held;
  int64_t bytes = 0;
  const auto check_and_drop = [&](size_t which) {
    const auto [k, source] = held[which];
    const Tensor found = source->produce(), expected = value_of(k, 8 + k % 5);
    CHECK(std::memcmp(found.raw_data(), expected.raw_data(), static_cast<size_t>(expected.nbytes())) == 0);
    bytes -= expected.nbytes();
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
  };
  for (int64_t k = 0; k < 64; ++k) {
    const Tensor value = value_of(k, 8 + k % 5);
    held.emplace_back(k, policy("test", value));
    bytes += value.nbytes();
    CHECK(store.held_bytes() == bytes);
    if (held.size() == 4) check_and_drop(static_cast<size_t>(k * 7 % 4));
    CHECK(store.file_bytes() <= 6 * 12 * 4);
  }
  while (!held.empty()) check_and_drop(0);
  CHECK(store.held_bytes() == 0);
  CHECK(store.file_bytes() == 0);
  CHECK_THROWS_WITH_AS(FileStore(""), "FileStore: expected a folder, got an empty name", ConfigError);
}

TEST_CASE("stores: kept inputs on the host are counted apart, and give the same bits") {
  const Model model;
  const Tensor input = sines({rows, width}, 0.3);
  for (const bool is_nested : {false, true}) {
    CAPTURE(is_nested);
    int64_t before = activations();
    model.loss(input, is_nested).backward();
    const std::vector<Tensor> expected = model.take_gradients();

    before = activations();
    Variable loss = model.loss(input, is_nested);
    const int64_t kept = activations() - before;
    const HostStore host;
    loss = {};
    {
      const CheckpointInputsScope scope(host.policy());
      loss = model.loss(input, is_nested);
    }
    const int64_t segments = is_nested ? layers / 2 : layers;
    CHECK(host.account().total().current == segments * value_bytes);
    // The first input belongs to the caller; the others are no longer held here.
    CHECK(activations() - before == kept - (segments - 1) * value_bytes);
    loss.backward();
    check_same_bits(model.take_gradients(), expected);
    loss = {};
    CHECK(host.account().total().current == 0);
  }
}

TEST_CASE("stores: a budget of the host is kept") {
  const Model model;
  const HostStore host(2 * value_bytes);
  const CheckpointInputsScope scope(host.policy());
  CHECK_THROWS_WITH_AS(model.loss(sines({rows, width}, 0.3)),
                       doctest::Contains("HostStore: budget_bytes 16384: memory limit of 16384 bytes"),
                       StoreBudgetError);
  CHECK(host.account().total().current == 0);
  CHECK_THROWS_WITH_AS(HostStore(-1), "HostStore: expected a budget of 0 or more bytes, got -1", ConfigError);
}

TEST_CASE("stores: a file gives the same bits, with retained graphs too, and is used again") {
  const TemporaryFolder folder;
  const Model model;
  const Tensor input = sines({rows, width}, 0.3);
  model.loss(input).backward();
  const std::vector<Tensor> expected = model.take_gradients();
  const FileStore file(folder / ".");
  for (int step = 0; step < 2; ++step) {
    std::optional<CheckpointInputsScope> scope(std::in_place, file.policy());
    Variable loss = model.loss(input);
    scope.reset();
    CHECK(file.held_bytes() == layers * value_bytes);
    loss.backward({.retain_graph = true});
    check_same_bits(model.take_gradients(), expected);
    loss.backward();
    check_same_bits(model.take_gradients(), expected);
    loss = {};
    CHECK(file.held_bytes() == 0);
    CHECK(file.peak_bytes() >= layers * value_bytes);
  }
  CHECK(std::filesystem::is_empty(folder / "."));
}

TEST_CASE("stores: all that operations save, not segments alone") {
  const Model model;
  const Tensor input = sines({rows, width}, 0.3);
  model.layer(input, 0).sum().backward();
  const Tensor expected = model.weights[0].grad().value();
  model.weights[0].set_grad({});
  const HostStore host;
  std::optional<SavingPolicyScope> scope(std::in_place, host.policy());
  const Variable loss = model.layer(input, 0).sum();
  scope.reset();
  CHECK(host.account().total().current > 0);
  loss.backward();
  check_same_bits({model.weights[0].grad().value()}, {expected});
}

TEST_CASE("stores: a folder that is not there is refused") {
  CHECK_THROWS_WITH_AS(FileStore("/no/such/folder"),
                       "FileStore: cannot make a file in '/no/such/folder': No such file or directory",
                       ConfigError);
}

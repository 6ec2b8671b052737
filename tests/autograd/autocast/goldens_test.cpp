// Programs under autocast, beside PyTorch's (make_goldens.py).

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>

#include "autograd/autocast/autocast.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/layers/attention.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "tensor/io/safetensors.h"

using namespace tessera;

namespace {

using Named = std::map<std::string, Variable>;

Named classifier(const Named& i) {
  const Variable hidden = relu(linear(i.at("x"), i.at("w1"), i.at("b1")));
  const Variable normal = layer_norm(hidden, i.at("g"), i.at("b"));
  const Variable logits = linear(normal, i.at("w2"), i.at("b2"));
  const Variable chances = softmax(logits);
  const Tensor targets = Tensor::from<int64_t>({0, 2, 1, 2, 0, 1});
  const Variable loss = cross_entropy(logits, targets) + sum(pow(chances, 2.0));
  return {{"hidden", hidden}, {"normal", normal}, {"logits", logits}, {"chances", chances}, {"loss", loss}};
}

Named regression(const Named& i) {
  const Variable hidden = tanh(linear(i.at("x"), i.at("w1"), i.at("b1")));
  const Variable y = linear(hidden, i.at("w2"), i.at("b2")) + 0.25 * narrow(i.at("x"), 1, 0, 2);
  return {{"hidden", hidden}, {"y", y}, {"loss", mse_loss(y, i.at("target"))}};
}

Named attention(const Named& i) {
  const Variable& x = i.at("x");
  const auto [batch, time, width] = x.dims<3>();
  const Variable thirds =
      permute(view(linear(x, i.at("w1")), {batch, time, 3, 2, width / 2}), {2, 0, 3, 1, 4});
  const Variable heads = scaled_dot_product_attention(select(thirds, 0, 0), select(thirds, 0, 1),
                                                      select(thirds, 0, 2), {.causal = true});
  const Variable joined = reshape(transpose(heads, 1, 2), {batch, time, width});
  const Variable y = x + linear(joined, i.at("w2"));
  return {{"heads", heads}, {"y", y}, {"loss", mse_loss(y, i.at("target"))}};
}

/// The largest difference, as a part of the largest expected element.
double difference(const Tensor& x, const Tensor& expected) {
  REQUIRE(x.shape() == expected.shape());
  const Tensor a = x.to(f64).contiguous(), b = expected.to(f64).contiguous();
  double largest = 0, most = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    largest = std::max(largest, std::abs(b.data<double>()[i]));
    most = std::max(most, std::abs(a.data<double>()[i] - b.data<double>()[i]));
  }
  return most / largest;
}

/// Products sum in another order, and attention rounds its weights elsewhere, so results of bf16 and what
/// follows from them differ by one of its roundings, 2^-7 of the largest element; a gradient is the sum of
/// several. That an operation has the right dtype, to the bit, is in dtypes_test.cpp.
constexpr double result_tolerance = 0x1p-7, gradient_tolerance = 0x1p-6;

void check(const std::string& name, Named (*program)(const Named&)) {
  CAPTURE(name);
  const io::SafetensorsFile file(std::string(TESSERA_TEST_DATA_DIR) +
                                 "/autograd/autocast/goldens.safetensors");
  Named inputs;
  size_t expected_count = 0;
  for (const io::SafetensorsEntry& entry : file.entries()) {
    expected_count += entry.name.starts_with(name + "/");
    if (!entry.name.starts_with(name + "/in/")) continue;
    const std::string input = entry.name.substr(name.size() + 4);
    const Tensor value = file.read(entry.name);
    inputs.emplace(input, input == "target" ? Variable(value) : Variable::leaf(value));
  }
  Named results;
  {
    const AutocastScope autocast(bf16);
    results = program(inputs);
  }
  results.at("loss").backward();
  size_t compared = 0;
  const auto compare = [&](const std::string& what, const Tensor& value, double tolerance) {
    CAPTURE(what);
    const Tensor expected = file.read(name + "/" + what);
    CHECK(value.dtype() == expected.dtype());
    CHECK(difference(value, expected) <= tolerance);
    ++compared;
  };
  for (const auto& [what, value] : results) compare(what, value.value(), result_tolerance);
  for (const auto& [what, value] : inputs)
    if (value.requires_grad()) compare("d" + what, value.grad().value(), gradient_tolerance);
  CHECK(compared + inputs.size() == expected_count);
}

}  // namespace

TEST_CASE("autocast: a classifier with layer norm, softmax and cross entropy") {
  check("classifier", classifier);
}

TEST_CASE("autocast: a regression with f32 targets") {
  check("regression", regression);
}

TEST_CASE("autocast: attention in a residual stream of f32") {
  check("attention", attention);
}

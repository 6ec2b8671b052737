// Weight and spectral norm of layers against PyTorch: goldens/parametrizations.txt.

#include <doctest/doctest.h>

#include <iterator>
#include <set>
#include <sstream>

#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/convolution.h"
#include "nn/layers/linear.h"
#include "nn/layers/recurrent/recurrent.h"
#include "nn/materialize.h"
#include "nn/parametrize/norms.h"
#include "tensor/functions.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/reduction.h"
#include "tests/nn/golden_net.h"

using namespace tessera;
using module_goldens::check_close;
using module_goldens::golden;
using module_goldens::pattern;

namespace {

/// The names, which PyTorch lists module by module, and a module here with buffers after all parameters.
std::set<std::string> names(const nn::StateDict& state) {
  std::set<std::string> all;
  for (const NamedTensor& entry : state) all.insert(entry.name);
  return all;
}
std::set<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

/// What `train` of make_parametrization_goldens.py does.
template <class M, class Run>
void check_training(const std::string& key, M& module, const Tensor& x, const Run& run) {
  CAPTURE(key);
  nn::materialize(module, cpu(), 1);
  module_goldens::fill_parameters(module);
  for (auto& [name, buffer] : module.named_buffers()) {
    const Tensor values = pattern(buffer.shape());
    buffer.value().copy_from(ops::div(values, ops::norm(values, 2)));
  }
  CHECK(names(module.state_dict()) == words(golden(key + " state")));
  for (const char* step : {"0", "1"}) {
    module.zero_grad();
    const Variable y = run(module, Variable(x));
    sum(square(y)).backward();
    check_close(y.value(), key + " y " + step);
    for (auto& [name, p] : module.named_parameters())
      p.value().copy_from(ops::sub(p.value(), ops::mul(p.grad().value(), 0.01)));
  }
  module.eval();
  check_close(run(module, Variable(x)).value(), key + " eval");
  const nn::StateDict state = module.state_dict();
  for (const NamedTensor& entry : state) check_close(entry.tensor, key + " " + entry.name);
  const Tensor before = run(module, Variable(x)).value();
  for (const char* name : {"weight", "bias", "weight_hh_l0"}) {
    if (!nn::is_parametrized(module, name)) continue;
    nn::remove_parametrizations(module, name);
    check_close(module.get_parameter(name).value(), key + " removed " + name);
  }
  CHECK(!nn::is_parametrized(module));
  CHECK(module.child_entries().empty());
  CHECK(array_equal(run(module, Variable(x)).value(), before));
}

template <class M>
void check_training(const std::string& key, M& module, const Tensor& x) {
  check_training(key, module, x, [](M& called, const Variable& in) { return called(in); });
}

}  // namespace

TEST_CASE("weight norm: names, two steps, evaluation and removal are PyTorch's") {
  const Tensor rows = pattern({2, 3}), image = pattern({2, 2, 3, 3});
  nn::Linear plain(3, 4), columns(3, 4), whole(3, 4);
  check_training("weight_norm", nn::weight_norm(plain), rows);
  check_training("weight_norm dim 1", nn::weight_norm(columns, {.dim = 1}), rows);
  check_training("weight_norm whole", nn::weight_norm(whole, {.dim = {}}), rows);
  nn::Conv2d conv(2, 3, 2);
  check_training("weight_norm conv", nn::weight_norm(conv), image);
  nn::LSTM lstm({.input_size = 3, .hidden_size = 2});
  check_training("weight_norm lstm", nn::weight_norm(lstm, {.name = "weight_hh_l0"}), pattern({3, 2, 3}),
                 [](nn::LSTM& called, const Variable& x) { return called(x).output; });
}

TEST_CASE("spectral norm: names, two steps, evaluation and removal are PyTorch's") {
  const Tensor rows = pattern({2, 3}), image = pattern({2, 2, 3, 3});
  nn::Linear plain(3, 4), both(3, 4);
  check_training("spectral_norm", nn::spectral_norm(plain), rows);
  nn::Conv2d conv(2, 3, 2), conv_dim(2, 3, 2);
  nn::ConvTranspose2d transposed(2, 3, 2);
  check_training("spectral_norm conv", nn::spectral_norm(conv, {.power_iterations = 3}), image);
  check_training("spectral_norm transposed", nn::spectral_norm(transposed), image);
  check_training("spectral_norm dim 2", nn::spectral_norm(conv_dim, {.eps = 0.5, .dim = 2}), image);
  nn::spectral_norm(both);
  check_training("both", nn::weight_norm(both, {.name = "bias"}), rows);
}

TEST_CASE("weight norm: a layer with values keeps them") {
  for (const auto& [key, dim] :
       {std::pair<std::string, std::optional<int64_t>>{"rows", 0}, {"columns", 1}, {"whole", std::nullopt}}) {
    nn::Linear linear(3, 4);
    nn::materialize(linear, cpu(), 1);
    module_goldens::fill_parameters(linear);
    const Variable x(pattern({2, 3}));
    const Tensor before = linear(x).value();
    nn::weight_norm(linear, {.dim = dim});
    check_close(linear.get_parameter("parametrizations.weight.original0").value(),
                "weight_norm begins " + key);
    CHECK(allclose(linear(x).value(), before, 1e-6, 1e-7));
  }
}

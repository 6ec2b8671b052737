#include "nn/quantize_weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/grad_mode.h"
#include "nn/clone.h"
#include "nn/layers/attention/multihead_attention.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "nn/parametrize/norms.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/quantized_linear.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

struct Net : nn::Layer<Net> {
  nn::Linear& fc = add("fc", nn::Linear(24, 40));
  nn::Linear& head = add("head", nn::Linear(40, 7, false));
  Variable forward(const Variable& x) const { return head.forward_activated(fc(x), Activation::relu); }
};

struct Tied : nn::Layer<Tied> {
  nn::Linear& fc = add("fc", nn::Linear(4, 4));
  Variable& table = share_parameter("table", fc.weight);
  Variable forward(const Variable& x) const { return fc(x); }
};

}  // namespace

TEST_CASE("quantize_weights: layers compute with the nearest integers, and the weights are gone") {
  NoGrad no_grad;
  for (const DType dtype : {f32, bf16}) {
    Net net;
    nn::materialize(net, cpu(), 1);
    net.to(dtype);
    const Tensor fc = net.fc.weight.value(), head = net.head.weight.value();
    nn::quantize_weights(net);
    CHECK(net.fc.weight.value().is_meta());
    CHECK(net.fc.weight.shape() == Shape{40, 24});
    CHECK(net.fc.device() == cpu());
    CHECK(net.fc.describe_options() == "24 -> 40, int8");
    // The same network with the weights that the integers stand for.
    Net rounded;
    nn::materialize(rounded, cpu(), 1);
    rounded.fc.weight.value().copy_from(ops::dequantize_rows(ops::quantize_rows(fc)));
    rounded.head.weight.value().copy_from(ops::dequantize_rows(ops::quantize_rows(head)));
    if (dtype == bf16) rounded.fc.bias->value().copy_from(ops::cast(net.fc.bias->value(), f32));
    rounded.to(f64);
    for (const int64_t rows : {1, 5, 33}) {
      const Tensor x = random_tensor({rows, 24}, dtype, 3);
      const Tensor y = net(Variable(x)).value();
      CHECK(y.dtype() == dtype);
      // f32 rounds sums of 40 terms below 1; bf16 rounds x, hidden values and result to 8 bits.
      CHECK(largest_difference(y, rounded(Variable(to_f64(x))).value()) <= (dtype == f32 ? 1e-6 : 0.02));
    }
    Net copy = nn::clone(net);
    const Variable x(random_tensor({2, 24}, dtype, 3));
    CHECK(same_bits(copy(x).value(), net(x).value()));
    nn::quantize_weights(net);  // nothing is left to do
    // Values for the weights are neither there to be saved, nor loaded past the integers.
    CHECK(net.state_dict()[0].tensor.is_meta());
    CHECK_THROWS_AS(net.load_state_dict(rounded.state_dict()), DeviceError);
    // New values would take the place of the integers without a word.
    for (nn::Module* module : {static_cast<nn::Module*>(&net), static_cast<nn::Module*>(&copy)})
      CHECK_THROWS_WITH_AS(nn::materialize(*module, cpu(), 1),
                           doctest::Contains("nn::Linear 'fc': its weight is stored as 8-bit integers"),
                           ConfigError);
    CHECK(net.fc.quantized_weight() != nullptr);
  }
}

TEST_CASE("quantize_weights: losses, and attention with a cache") {
  NoGrad no_grad;
  nn::Linear head(24, 7);
  nn::materialize(head, cpu(), 1);
  nn::quantize_weights(head);
  const Variable x(random_tensor({5, 24}, f32, 3));
  const Tensor targets = Tensor::from<int64_t>({0, 6, 2, 2, 1});
  CHECK(same_bits(head.cross_entropy(x, targets).value(), cross_entropy(head(x), targets).value()));
  nn::MultiheadAttention attention({.embed_dim = 16, .num_heads = 2});
  nn::materialize(attention, cpu(), 1);
  nn::quantize_weights(attention);
  CHECK_NOTHROW(attention.make_cache(2, 8));
}

TEST_CASE("quantize_weights: a call that would record gradients throws and names the layer") {
  Net net;
  nn::materialize(net, cpu(), 1);
  nn::quantize_weights(net);
  const Variable x(random_tensor({2, 24}, f32, 3));
  CHECK_THROWS_WITH_AS(net(x), doctest::Contains("nn::Linear 'fc': its weight is int8"), AutogradError);
  net.set_requires_grad(false);
  CHECK_NOTHROW(net(x));
  const Variable wanted = Variable::parameter(random_tensor({2, 24}, f32, 3), true, "x");
  CHECK_THROWS_AS(net(wanted), AutogradError);
  CHECK_THROWS_AS(net.fc.forward_activated(wanted, Activation::relu), AutogradError);
  NoGrad no_grad;
  CHECK_NOTHROW(net(wanted));
}

TEST_CASE("quantize_weights: what is refused leaves every layer as it is") {
  const auto refuse = [](nn::Module& net, const char* what, auto error) {
    CHECK_THROWS_WITH_AS(nn::quantize_weights(net), doctest::Contains(what), decltype(error));
    net.for_each([](nn::Module& module) {
      if (auto* linear = module.as<nn::Linear>()) CHECK(linear->quantized_weight() == nullptr);
    });
  };
  Net net;
  refuse(net, "nn::Linear 'fc': expected a weight on the CPU", DeviceError(""));
  nn::materialize(net, cpu(), 1);
  net.head.weight.value().data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  refuse(net, "nn::Linear 'head': quantize_rows: expected finite values, got NaN", ValueError(""));
  nn::materialize(net, cpu(), 1);
  net.to(f16);
  refuse(net, "nn::Linear 'fc': expected a weight of f32 or bf16", DTypeError(""));
  Tied tied;
  nn::materialize(tied, cpu(), 1);
  refuse(tied, "nn::Linear 'fc': its weight is tied", ConfigError(""));
  Net mixed;
  nn::materialize(mixed, cpu(), 1);
  nn::use_mixed_precision(mixed, bf16);
  refuse(mixed, "nn::Linear 'fc' is in mixed precision", ConfigError(""));
  Net normed;
  nn::materialize(normed, cpu(), 1);
  nn::weight_norm(normed.head);
  refuse(normed, "nn::Linear 'head': its weight is parametrised", ConfigError(""));
}

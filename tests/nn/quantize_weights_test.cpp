#include "nn/quantize_weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/autocast/autocast.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/grad_mode.h"
#include "nn/clone.h"
#include "nn/layers/attention/multihead_attention.h"
#include "nn/layers/containers.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "nn/parametrize/norms.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/activation_linear.h"
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

TEST_CASE("quantize_weights: the loss of a bf16 head has logits of f32, and never all at once") {
  NoGrad no_grad;
  constexpr int64_t rows = 600, width = 24, classes = 1100;
  const Variable x(random_tensor({rows, width}, bf16, 3));
  const Tensor targets = Tensor::empty({rows}, i64);
  for (int64_t i = 0; i < rows; ++i) targets.data<int64_t>()[i] = i * 37 % classes;
  nn::Linear head(width, classes);
  nn::Embedding table(classes, width);
  for (nn::Module* module : {static_cast<nn::Module*>(&head), static_cast<nn::Module*>(&table)}) {
    nn::materialize(*module, cpu(), 1);
    module->to(bf16);
  }
  table.weight.value().copy_from(random_tensor({classes, width}, bf16, 4));
  nn::quantize_weights(head);
  table.quantize_logits();
  const auto check = [&](const ops::QuantizedWeight& integers, const Variable* bias, const auto& loss_of) {
    const Variable logits =
        linear(Variable(to_f64(x.value())), Variable(to_f64(ops::dequantize_rows(integers, bf16))),
               bias ? Variable(to_f64(bias->value())) : Variable());
    const auto account = make_intrusive<MemoryAccount>();
    const double exact = cross_entropy(logits, targets).value().item();
    const AccountScope scope(account);
    const Tensor loss = loss_of().value();
    CHECK(loss.dtype() == f32);
    CHECK(loss.item() == doctest::Approx(exact).epsilon(1e-6));
    CHECK(account->total().peak < rows * classes * 2);
  };
  check(*head.quantized_weight(), head.bias, [&] { return head.cross_entropy(x, targets); });
  check(*table.quantized_logits_weight(), nullptr, [&] { return table.cross_entropy(x, targets); });
  const CrossEntropyOptions each{.reduction = LossReduction::none};
  CHECK(head.cross_entropy(x, targets, each).shape() == Shape{rows});
}

TEST_CASE("quantize_weights: products follow autocast as those of other layers") {
  NoGrad no_grad;
  Net net;
  nn::Embedding table(7, 24);
  nn::materialize(net, cpu(), 1);
  nn::materialize(table, cpu(), 1);
  nn::quantize_weights(net);
  table.quantize_logits();
  const Variable x(random_tensor({5, 24}, f32, 3));
  const Tensor low = ops::cast(x.value(), bf16), targets = Tensor::from<int64_t>({0, 6, 2, 2, 1});
  const Tensor hidden =
      ops::quantized_linear(low, *net.fc.quantized_weight(), ops::cast(net.fc.bias->value(), bf16));
  {
    const AutocastScope autocast(bf16);
    CHECK(same_bits(net.fc(x).value(), hidden));
    // The activation is one of bf16, too.
    CHECK(same_bits(
        net.head.forward_activated(Variable(ops::cast(hidden, f32)), Activation::relu).value(),
        ops::quantized_linear(ops::activation(Activation::relu, hidden), *net.head.quantized_weight())));
    CHECK(net(x).dtype() == bf16);
    CHECK(same_bits(table.logits(x).value(), ops::quantized_linear(low, *table.quantized_logits_weight())));
    CHECK(same_bits(
        table.cross_entropy(x, targets).value(),
        ops::quantized_linear_cross_entropy(low, *table.quantized_logits_weight(), {}, targets, {})));
    const AutocastScope inner(f32);
    CHECK(net(x).dtype() == f32);
  }
  const AutocastScope autocast(f16);
  CHECK_THROWS_WITH_AS(net(x),
                       doctest::Contains("nn::Linear 'fc': its weight is int8, which multiplies f32 and "
                                         "bf16, got (5, 24) f16 on cpu by autocast"),
                       DTypeError);
}

TEST_CASE("quantize_weights: a layer with integers takes no parametrisation of its weight") {
  NoGrad no_grad;
  Net net;
  nn::materialize(net, cpu(), 1);
  nn::quantize_weights(net);
  const Variable x(random_tensor({2, 24}, f32, 3));
  const Tensor before = net(x).value();
  const char* const message = "'weight' of Linear 'fc' has 8-bit integers";
  CHECK_THROWS_WITH_AS(nn::weight_norm(net.fc), doctest::Contains(message), ConfigError);
  CHECK_THROWS_WITH_AS(nn::spectral_norm(net.fc), doctest::Contains(message), ConfigError);
  CHECK_FALSE(nn::is_parametrized(net.fc));
  CHECK(same_bits(net(x).value(), before));
  nn::Embedding table(7, 24), normed(7, 24);
  nn::materialize(table, cpu(), 1);
  table.quantize_logits();
  CHECK_THROWS_WITH_AS(nn::weight_norm(table), doctest::Contains("has 8-bit integers"), ConfigError);
  nn::materialize(normed, cpu(), 1);
  nn::weight_norm(normed);
  CHECK_THROWS_WITH_AS(normed.quantize_logits(),
                       doctest::Contains("nn::Embedding '': its weight is parametrised"), ConfigError);
}

TEST_CASE("quantize_logits: logits of a table that was changed afterwards throw until it is called again") {
  NoGrad no_grad;
  nn::Embedding table(7, 24);
  nn::materialize(table, cpu(), 1);
  const Variable x(random_tensor({2, 24}, f32, 3));
  const Tensor targets = Tensor::from<int64_t>({0, 6});
  const auto refused = [&](const nn::Embedding& changed) {
    const char* const message = "the table was changed after its 8-bit integers were made";
    CHECK_THROWS_WITH_AS(changed.logits(x), doctest::Contains(message), ConfigError);
    CHECK_THROWS_WITH_AS(changed.cross_entropy(x, targets), doctest::Contains(message), ConfigError);
  };
  table.quantize_logits();
  CHECK_NOTHROW(table.logits(x));
  nn::Embedding copy = nn::clone(table);
  CHECK(same_bits(copy.logits(x).value(), table.logits(x).value()));
  table.weight.value().copy_from(random_tensor({7, 24}, f32, 5));
  refused(table);
  CHECK_NOTHROW(copy.logits(x));
  nn::Embedding late = nn::clone(table);
  refused(late);
  table.quantize_logits();
  CHECK(same_bits(table.logits(x).value(),
                  ops::quantized_linear(x.value(), ops::quantize_rows(table.weight.value()))));
  table.weight.set_value(table.weight.value().clone());
  refused(table);
  copy.load_state_dict(table.state_dict());
  refused(copy);
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

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/reduction.h"
#include "autograd/grad_mode.h"
#include "nn/layers/activation.h"
#include "nn/layers/attention.h"
#include "nn/layers/dropout.h"
#include "nn/layers/linear.h"
#include "nn/layers/normalization.h"
#include "nn/materialize.h"
#include "nn/summary.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

Tensor waves(const Shape& shape) {
  const Tensor t = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = std::sin(0.7 * static_cast<double>(i));
  return t;
}
double at(const Variable& x, int64_t i) {
  return x.value().contiguous().data<double>()[i];
}

}  // namespace

TEST_CASE("linear: x W^T + b by the formula") {
  nn::Linear layer({.in = 3, .out = 2, .bias_init = init::zeros()});
  layer.to(f64);
  nn::materialize(layer, cpu(), 1);
  const Variable x = waves({4, 3}), y = layer(x);
  const double* w = layer.weight.value().data<double>();
  layer.bias->value().data<double>()[1] = 0.25;
  const Variable z = layer(x);
  for (int64_t r = 0; r < 4; ++r) {
    double expected = 0;
    for (int64_t i = 0; i < 3; ++i) expected += at(x, 3 * r + i) * w[3 + i];
    CHECK(at(y, 2 * r + 1) == doctest::Approx(expected));
    CHECK(at(z, 2 * r + 1) == doctest::Approx(expected + 0.25));
  }
}

TEST_CASE("causal self-attention: a position depends on no later one, and the cache gives the same values") {
  nn::CausalSelfAttention layer({.width = 8, .heads = 2});
  layer.to(f64);
  nn::materialize(layer, cpu(), 5);
  NoGrad no_grad;
  const Tensor x = waves({2, 6, 8});
  const Variable full = layer(Variable(x));
  const Variable prefix = layer(Variable(x.narrow(1, 0, 4).contiguous()));
  for (int64_t i = 0; i < 4 * 8; ++i) CHECK(at(prefix, i) == doctest::Approx(at(full, i)).epsilon(1e-12));

  nn::KeyValueCache cache({.batch = 2, .heads = 2, .capacity = 6, .width = 4, .dtype = f64});
  layer.forward_cached(Variable(x.narrow(1, 0, 3).contiguous()), cache);
  for (int64_t t = 3; t < 6; ++t) {
    const Variable step = layer.forward_cached(Variable(x.narrow(1, t, 1).contiguous()), cache);
    for (int64_t c = 0; c < 8; ++c) CHECK(at(step, c) == doctest::Approx(at(full, t * 8 + c)).epsilon(1e-12));
  }
  CHECK_THROWS_WITH_AS(layer.forward_cached(Variable(x.narrow(1, 0, 1).contiguous()), cache),
                       doctest::Contains("do not fit the cache"), ShapeError);
  CHECK_THROWS_AS(nn::CausalSelfAttention({.width = 8, .heads = 3}), ConfigError);
}

TEST_CASE(
    "dropout: off in evaluation; in training keyed by seed, step, sample and name, for any split of the "
    "batch") {
  nn::Dropout layer(0.5);
  const Tensor ones = Tensor::empty({4, 50}, f64);
  for (int64_t i = 0; i < ones.numel(); ++i) ones.data<double>()[i] = 1;
  layer.eval();
  CHECK(at(layer(Variable(ones)), 7) == 1);
  layer.train();
  const std::vector<int64_t> samples{0, 1, 2, 3};
  begin_random_step(1, 0, samples);
  const Variable full = layer(Variable(ones));
  begin_random_step(1, 0, std::span(samples).subspan(2));
  const Variable half = layer(Variable(ones.narrow(0, 2, 2).contiguous()));
  int64_t kept = 0;
  for (int64_t i = 0; i < 100; ++i) CHECK(at(half, i) == at(full, 100 + i));
  for (int64_t i = 0; i < 200; ++i) {
    CHECK((at(full, i) == 0 || at(full, i) == 2));
    kept += at(full, i) != 0;
  }
  CHECK(kept > 60);
  CHECK(kept < 140);
  begin_random_step(1, 1, samples);
  const Variable next = layer(Variable(ones));
  bool differs = false;
  for (int64_t i = 0; i < 200; ++i) differs |= at(next, i) != at(full, i);
  CHECK(differs);
  CHECK_THROWS_AS(nn::Dropout(1.0), ConfigError);
}

TEST_CASE("normalisation layers: rows of mean 0 and deviation 1, or of root mean square 1") {
  nn::LayerNorm layer(16);
  nn::RMSNorm rms(16);
  layer.to(f64);
  rms.to(f64);
  nn::materialize(layer, cpu(), 1);
  nn::materialize(rms, cpu(), 1);
  const Variable y = layer(Variable(waves({3, 16}))), z = rms(Variable(waves({3, 16})));
  double mean = 0, square = 0, square_rms = 0;
  for (int64_t i = 16; i < 32; ++i) {
    mean += at(y, i) / 16;
    square += at(y, i) * at(y, i) / 16;
    square_rms += at(z, i) * at(z, i) / 16;
  }
  CHECK(std::abs(mean) < 1e-12);
  CHECK(square == doctest::Approx(1).epsilon(1e-4));
  CHECK(square_rms == doctest::Approx(1).epsilon(1e-4));
}

TEST_CASE("activation modules: known values of the functions of the same names") {
  const Variable x(Tensor::from({-1.0, 0.0, 2.0}));
  CHECK(at(nn::ReLU()(x), 0) == 0);
  CHECK(at(nn::GELU()(x), 2) == doctest::Approx(1.9544997361036416));
  CHECK(at(nn::GELUTanh()(x), 2) == doctest::Approx(1.9545976940877752));
  CHECK(at(nn::SiLU()(x), 0) == doctest::Approx(-0.2689414213699951));
  CHECK(at(nn::Tanh()(x), 2) == doctest::Approx(std::tanh(2.0)));
  CHECK(at(nn::Sigmoid()(x), 1) == 0.5);
  CHECK(at(nn::Softmax()(x), 2) == doctest::Approx(0.8437947344813395));
}

TEST_CASE("summary: shapes, parameters, FLOPs and activation bytes of a meta run, without allocation") {
  nn::Linear layer({.in = 64, .out = 32});
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  const nn::Summary s = nn::summary(layer, {10, 64});
  CHECK(s.parameters == 64 * 32 + 32);
  CHECK(s.flops == 2 * 10 * 64 * 32);
  CHECK(s.rows[0].outputs[0] == Shape{10, 32});
  CHECK(s.activation_bytes == 10 * 32 * 4);
  CHECK(account->total().peak == 0);
  const std::string table = to_string(s);
  CHECK(table.find("Linear (64 -> 32)") != std::string::npos);
  CHECK(table.find("2,080") != std::string::npos);
}

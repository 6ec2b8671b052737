#include "models/lstm_lm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/layers/loss.h"
#include "autograd/grad_mode.h"
#include "nn/loss.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "nn/summary.h"
#include "optim/rules/adam.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

Tensor ids(const Shape& shape, int64_t vocabulary) {
  const Tensor x = Tensor::empty(shape, i64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<int64_t>()[i] = (i * 5 + i / 3) % vocabulary;
  return x;
}

}  // namespace

TEST_CASE("lstm lm: parameters and FLOPs are those of the formulas") {
  models::LstmLm model({.vocabulary = 10000});
  CHECK(model.parameters().numel() == models::parameter_count(model.o));
  CHECK(models::parameter_count(model.o) == 14'452'496);
  const nn::Summary s = nn::summary(model, {2, 8});
  CHECK(3 * s.flops == models::flops_per_token(model.o) * 16);
}

TEST_CASE("lstm lm: the loss is the cross entropy of the logits") {
  models::LstmLm model({.vocabulary = 11, .width = 8});
  model.to(f64);
  nn::materialize(model, cpu(), 1);
  const Tensor x = ids({3, 5}, 11), y = ids({3, 5}, 7);
  const Variable logits = model(x);
  CHECK(logits.shape() == Shape{3, 5, 11});
  CHECK(model.loss(x, y).value().item() ==
        doctest::Approx(nn::cross_entropy(logits, y).value().item()).epsilon(1e-12));
}

TEST_CASE("lstm lm: a text in chunks has the logits of the full text") {
  models::LstmLm model({.vocabulary = 11, .width = 8});
  model.to(f64);
  nn::materialize(model, cpu(), 1);
  NoGrad no_grad;
  const Tensor x = ids({2, 6}, 11), full = model(x).value().contiguous();
  nn::LstmState state;
  for (int64_t begin = 0; begin < 6; begin += 2) {
    const auto [logits, after] = model.forward_from(x.narrow(1, begin, 2), state);
    state = after;
    const Tensor part = logits.value().contiguous(), expected = full.narrow(1, begin, 2).contiguous();
    for (int64_t i = 0; i < part.numel(); ++i)
      CHECK(part.data<double>()[i] == doctest::Approx(expected.data<double>()[i]).epsilon(1e-12));
  }
}

TEST_CASE("lstm lm: it learns a repeating text, with dropout and in bf16 too") {
  for (const DType dtype : {f32, bf16}) {
    models::LstmLm model({.vocabulary = 5, .width = 24, .dropout = 0.1});
    nn::materialize(model, cpu(), 2);
    if (dtype == bf16) nn::use_mixed_precision(model, bf16);
    optim::AdamW adam(model.parameters(), {.lr = 2e-2});
    const Tensor text = Tensor::empty({2, 13}, i64);
    for (int64_t i = 0; i < text.numel(); ++i) text.data<int64_t>()[i] = (i % 13 + i / 13) % 5;
    const std::vector<int64_t> samples{0, 1};
    double first = 0, last = 0;
    for (int64_t step = 0; step < 40; ++step) {
      begin_random_step(1, step, samples);
      const Variable loss = model.loss(text.narrow(1, 0, 12), text.narrow(1, 1, 12));
      loss.backward();
      adam.step();
      adam.zero_grad();
      (step == 0 ? first : last) = loss.value().item();
    }
    CHECK(first > 1.4);
    CHECK(last < 0.3);
  }
}

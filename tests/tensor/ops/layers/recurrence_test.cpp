#include "tensor/ops/layers/recurrence.h"

#include <doctest/doctest.h>

#include "tensor/profile/cost.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;

namespace {

struct Problem {
  RecurrentOptions options;
  ops::RecurrenceOperands operands = {};
  Tensor dy = {}, dh_n = {}, dc_n = {};
};

Tensor values(const Shape& shape, DType dtype, int64_t phase) {
  return filled(shape, dtype, [phase](int64_t i) { return scattered(i + phase) / 4; });
}

Problem problem(RecurrentCell cell, std::vector<int64_t> sizes, bool reverse, int64_t hidden,
                int64_t projection, DType dtype) {
  Problem p{{cell, reverse, std::move(sizes)}};
  const int64_t rows = p.options.rows(), batch = p.options.batch(), gates = gates_of(cell) * hidden;
  const int64_t features = projection > 0 ? projection : hidden;
  p.operands.inputs = values({rows, gates}, dtype, 0);
  p.operands.h0 = values({batch, features}, dtype, 3);
  if (cell == RecurrentCell::lstm) p.operands.c0 = values({batch, hidden}, dtype, 5);
  p.operands.weight_hh = values({gates, features}, dtype, 7);
  p.operands.bias_ih = values({gates}, dtype, 11);
  p.operands.bias_hh = values({gates}, dtype, 13);
  if (projection > 0) p.operands.weight_hr = values({projection, hidden}, dtype, 17);
  p.dy = values({rows, features}, dtype, 19);
  p.dh_n = values({batch, features}, dtype, 23);
  if (cell == RecurrentCell::lstm) p.dc_n = values({batch, hidden}, dtype, 29);
  return p;
}

std::vector<Tensor> run(const Problem& p) {
  ops::RecurrenceOperands operands = p.operands;
  operands.inputs = p.operands.inputs.clone();
  const ops::Recurrence f = ops::recurrence(p.options, operands);
  std::vector<Tensor> all{f.y.clone(), f.h_n, f.gates.clone()};
  if (f.c_n.defined()) all.push_back(f.c_n);
  const auto g = ops::recurrence_backward(p.options, operands, f, p.dy, p.dh_n, p.dc_n, false);
  for (const Tensor& x : {g.gates, g.extra, g.h, g.h0, g.c0})
    if (x.defined()) all.push_back(x);
  return all;
}

constexpr RecurrentCell cells[] = {RecurrentCell::lstm, RecurrentCell::gru, RecurrentCell::rnn_tanh,
                                   RecurrentCell::rnn_relu};

}  // namespace

TEST_CASE("recurrence: results have the same bits for any number of threads") {
  const int before = num_threads();
  for (const RecurrentCell cell : cells)
    for (const DType dtype : {f64, f32, bf16})
      for (const bool reverse : {false, true}) {
        const bool projects = cell == RecurrentCell::lstm && reverse;
        const Problem p = problem(cell, {37, 37, 30, 5}, reverse, 83, projects ? 50 : 0, dtype);
        set_num_threads(1);
        const std::vector<Tensor> one = run(p);
        for (const int threads : {2, 3, 5}) {
          set_num_threads(threads);
          const std::vector<Tensor> many = run(p);
          for (size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], many[i]));
        }
        set_num_threads(before);
      }
}

TEST_CASE("recurrence: a sequence's results do not depend on the others") {
  for (const RecurrentCell cell : cells) {
    const Problem all = problem(cell, {3, 3, 2, 1}, false, 21, 0, f32);
    Problem one = all;  // the first sequence: row 0 of every step
    one.options.batch_sizes = {1, 1, 1, 1};
    const int64_t rows[] = {0, 3, 6, 8};
    const Tensor inputs = Tensor::empty({4, all.operands.inputs.size(1)}, f32);
    for (int64_t t = 0; t < 4; ++t)
      inputs.narrow(0, t, 1).copy_from(all.operands.inputs.narrow(0, rows[t], 1));
    one.operands.inputs = inputs;
    one.operands.h0 = all.operands.h0.narrow(0, 0, 1);
    if (all.operands.c0.defined()) one.operands.c0 = all.operands.c0.narrow(0, 0, 1);
    one.dh_n = one.dc_n = one.dy = Tensor();
    ops::RecurrenceOperands many = all.operands;
    many.inputs = all.operands.inputs.clone();
    const Tensor y = ops::recurrence(all.options, many).y,
                 alone = ops::recurrence(one.options, one.operands).y;
    for (int64_t t = 0; t < 4; ++t)
      CHECK(same_bits(y.narrow(0, rows[t], 1).clone(), alone.narrow(0, t, 1).clone()));
  }
}

TEST_CASE("recurrence: h before every step is that of the step before, or the initial one") {
  const Tensor y = values({6, 2}, f32, 0), h0 = values({3, 2}, f32, 40);
  const auto row = [](const Tensor& x, int64_t i) { return x.narrow(0, i, 1).clone(); };
  const Tensor forward = ops::recurrence_states_before({RecurrentCell::gru, false, {3, 2, 1}}, y, h0);
  CHECK(same_bits(row(forward, 2), row(h0, 2)));
  CHECK(same_bits(row(forward, 4), row(y, 1)));
  CHECK(same_bits(row(forward, 5), row(y, 3)));
  const Tensor reverse = ops::recurrence_states_before({RecurrentCell::gru, true, {3, 2, 1}}, y, h0);
  CHECK(same_bits(row(reverse, 5), row(h0, 0)));
  CHECK(same_bits(row(reverse, 3), row(y, 5)));
  CHECK(same_bits(row(reverse, 4), row(h0, 1)));
  CHECK(same_bits(row(reverse, 2), row(h0, 2)));
}

TEST_CASE("recurrence: gradients may be written over the gates") {
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru})
    for (const DType dtype : {f32, f16}) {
      const Problem p = problem(cell, {4, 4, 3}, false, 18, 0, dtype);
      const std::vector<Tensor> separate = run(p);
      const ops::Recurrence f = ops::recurrence(p.options, p.operands);
      const auto g = ops::recurrence_backward(p.options, p.operands, f, p.dy, p.dh_n, p.dc_n, true);
      CHECK(g.gates.raw_data() == f.gates.raw_data());
      CHECK(same_bits(g.gates, separate[cell == RecurrentCell::lstm ? 4 : 3]));
    }
}

TEST_CASE("recurrence: counts the products' operations, on meta too") {
  const Problem p = problem(RecurrentCell::lstm, {2, 2, 1}, false, 8, 4, f32);
  ops::RecurrenceOperands on_meta;
  const auto move = [](const Tensor& x) { return x.defined() ? x.to(meta()) : x; };
  on_meta = {move(p.operands.inputs),    move(p.operands.h0),      move(p.operands.c0),
             move(p.operands.weight_hh), move(p.operands.bias_ih), move(p.operands.bias_hh),
             move(p.operands.weight_hr)};
  for (const auto& operands : {p.operands, on_meta}) {
    Cost cost;
    const CostScope scope(cost);
    const Tensor y = ops::recurrence(p.options, operands).y;
    CHECK(y.shape() == Shape{5, 4});
    CHECK(cost.flops == 2 * 5 * (32 * 4 + 8 * 4));
  }
}

TEST_CASE("recurrence: operands that do not fit are errors") {
  const Problem good = problem(RecurrentCell::lstm, {2, 1}, false, 4, 0, f32);
  const auto fails = [&](auto change, const char* message) {
    Problem p = good;
    change(p);
    return [p, message] {
      try {
        ops::recurrence(p.options, p.operands);
      } catch (const Error& error) {
        CHECK_MESSAGE(std::string(error.what()).find(message) != std::string::npos, error.what());
        throw;
      }
    };
  };
  CHECK_THROWS_AS(fails([](Problem& p) { p.options.batch_sizes = {}; }, "at least one step")(), ValueError);
  CHECK_THROWS_AS(fails([](Problem& p) { p.options.batch_sizes = {2, 0}; }, "below 1")(), ValueError);
  CHECK_THROWS_AS(fails([](Problem& p) { p.options.batch_sizes = {1, 2}; }, "larger than 1")(), ValueError);
  CHECK_THROWS_AS(fails(
                      [](Problem& p) {
                        p.operands.h0 = values({3, 4}, f32, 0);
                      },
                      "h0 of shape (2, 4)")(),
                  ShapeError);
  CHECK_THROWS_AS(fails([](Problem& p) { p.operands.c0 = Tensor(); }, "c0, which is undefined")(),
                  ValueError);
  CHECK_THROWS_AS(fails([](Problem& p) { p.operands.h0 = values({2, 4}, f64, 0); }, "of f32")(), DTypeError);
  CHECK_THROWS_AS(fails([](Problem& p) { p.operands.bias_hh = values({4}, f32, 0); }, "bias_hh")(),
                  ShapeError);
  CHECK_THROWS_AS(fails(
                      [](Problem& p) {
                        p.operands.weight_hh = values({16, 3}, f32, 0);
                      },
                      "projection")(),
                  ValueError);
}

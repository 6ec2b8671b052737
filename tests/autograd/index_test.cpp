#include <doctest/doctest.h>

#include "autograd/debug/gradcheck.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/indexing/advanced_indexing.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "autograd/views/sample_layout.h"
#include "tensor/index.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

// Lists of indices are compared with NumPy in index_goldens_test.cpp.

using namespace tessera;
using Values = std::vector<double>;

namespace {

Values values(const Variable& x) {
  const Tensor t = x.value().contiguous();
  return Values(t.data<double>(), t.data<double>() + t.numel());
}

}  // namespace

TEST_CASE("index: a recurrent network writes its outputs into rows of a buffer") {
  constexpr int64_t steps = 4, batch = 2, width = 3;
  const auto run = [](std::span<const Variable> v, bool in_buffer) {
    const Variable buffer = Tensor::zeros({steps, batch, width}, f64);
    Variable h = v[1];
    std::vector<Variable> outputs;
    for (int64_t t = 0; t < steps; ++t) {
      h = tanh(matmul(h, v[2]) + v[0][t]);
      if (in_buffer)
        buffer[t] = h;
      else
        outputs.push_back(h);
    }
    return in_buffer ? buffer : stack(outputs, 0);
  };
  const std::vector<Variable> inputs{Variable::leaf(random_tensor({steps, batch, width}, f64, 1)),
                                     Variable::leaf(random_tensor({batch, width}, f64, 2)),
                                     Variable::leaf(random_tensor({width, width}, f64, 3))};
  const Tensor dy = random_tensor({steps, batch, width}, f64, 4);
  const Variable a = run(inputs, true), b = run(inputs, false);
  CHECK(values(a) == values(b));
  const std::vector<Variable> da = grad({&a, 1}, inputs, std::vector<Variable>{dy}),
                              db = grad({&b, 1}, inputs, std::vector<Variable>{dy});
  for (size_t i = 0; i < inputs.size(); ++i) CHECK(largest_difference(da[i].value(), db[i].value()) < 1e-14);
  const auto squares = [&](std::span<const Variable> v) {
    const Variable y = run(v, true);
    return std::vector<Variable>{y * y};
  };
  CHECK(gradcheck(squares, inputs).passed);
  CHECK(gradgradcheck(squares, inputs).passed);
}

TEST_CASE("index: assignment to elements, rows and ranges; gradients of what stays and of what is written") {
  const Variable leaf = Variable::leaf(random_tensor({3, 2}, f64, 1)), x = leaf * 1.0,
                 v = Variable::leaf(Tensor::from<double>({0.5, 2}));
  x[0][1] = 3.0;
  x[1] = v;
  x[Slice(2)] = Tensor::from<double>({7, 8});
  CHECK(values(x[0])[1] == 3);
  CHECK(values(x[1]) == Values{0.5, 2});
  CHECK(values(x[2]) == Values{7, 8});
  x.backward(Tensor::from<double>({1, 2, 3, 4, 5, 6}, {3, 2}));
  CHECK(values(leaf.grad()) == Values{1, 0, 0, 0, 0, 0});
  CHECK(values(v.grad()) == Values{3, 4});

  Variable row = x[1];
  row = x[2];  // another handle
  CHECK(values(x[1]) == Values{0.5, 2});

  // All old values are overwritten: their gradient is zero.
  const Variable y = leaf * 1.0;
  y.index_put_({}, v);
  CHECK(values(grad(sum(y), {leaf})[0]) == Values(6, 0.0));
  // A value of another floating dtype is converted, and its gradient back.
  const Variable narrow_value = Variable::leaf(Tensor::from<float>({1, 2}));
  const Variable z = leaf * 1.0;
  z.index_put_({Tensor::from<int64_t>({0, 0, 1})}, narrow_value, true);
  sum(z).backward();
  CHECK(narrow_value.grad().dtype() == f32);
  CHECK(same_bits(narrow_value.grad().value(), Tensor::from<float>({3, 3})));
}

TEST_CASE("index: a Variable of positions or a mask is an index") {
  const Variable x = Variable::leaf(random_tensor({4, 3}, f64, 1)), ids = Tensor::from<int64_t>({2, 2, -4});
  const Variable y = x.index({ids});
  CHECK(same_bits(y.value()[0], x.value()[2]));
  sum(y).backward();
  CHECK(values(x.grad()) == Values{1, 1, 1, 0, 0, 0, 2, 2, 2, 0, 0, 0});
  // Saved positions are the index as it was.
  const Variable w = x.index({ids});
  ids.value().zero();
  CHECK(values(grad(sum(w), {x})[0])[6] == 2);
}

TEST_CASE("index: of several values for one element each receives its gradient, as in PyTorch") {
  const Variable v = Variable::leaf(Tensor::from<double>({1, 2, 3})), x = Tensor::zeros({2}, f64);
  x.index_put_({Tensor::from<int64_t>({1, 1, 0})}, v);
  CHECK(values(x) == Values{3, 2});
  x.backward(Tensor::from<double>({10, 20}));
  CHECK(values(v.grad()) == Values{20, 20, 10});
}

TEST_CASE("index: a gradient that adds repeated positions has the same bits for any number of threads") {
  const int before = num_threads();
  const Tensor ids = Tensor::empty({5000}, i64), dy = random_tensor({5000, 2, 3}, f32, 2);
  for (int64_t i = 0; i < 5000; ++i) ids.data<int64_t>()[i] = i * i % 40;
  Tensor first;
  for (const int threads : {1, 2, 7}) {
    set_num_threads(threads);
    const Variable x = Variable::leaf(random_tensor({40, 2, 5, 3}, f32, 1));
    x.index({ids, Slice(), 4}).backward(dy);
    if (threads == 1) first = x.grad().value();
    CHECK(same_bits(x.grad().value(), first));
  }
  set_num_threads(before);
}

TEST_CASE("index: errors of in-place changes") {
  const Variable leaf = Variable::leaf(random_tensor({3, 2}, f64, 1), "weight"), x = leaf * 1.0;
  const Tensor ids = Tensor::from<int64_t>({0, 1});
  CHECK_THROWS_WITH_AS(leaf.index_put_({ids}, 1.0), doctest::Contains("is a leaf that requires a gradient"),
                       AutogradError);
  CHECK_THROWS_WITH_AS(leaf[0] = 1.0, doctest::Contains("is a view of the leaf 'weight'"), AutogradError);
  {
    const NoGrad off;
    leaf[0] = 1.0;
    leaf.index_put_({ids, 1}, 2.0);
  }
  CHECK(values(leaf[0]) == Values{1, 2});
  CHECK_THROWS_AS(expand(x[0], {4, 2}).index_put_({}, 1.0), AutogradError);
  const Variable saved = x * x;
  x[0] = 1.0;
  CHECK_THROWS_WITH_AS(sum(saved).backward(), doctest::Contains("changed in place"), AutogradError);
  CHECK_THROWS_AS(x.index_put_({ids}, Tensor::zeros({3, 3}, f64)), ShapeError);
  CHECK_THROWS_AS(x.index_put_({5}, 1.0), IndexError);
  CHECK_THROWS_AS(static_cast<void>(Variable().index({0})), ValueError);
  CHECK_THROWS_AS(Variable().index_put_({0}, 1.0), ValueError);
  CHECK_THROWS_AS(x.index_put_({0}, Variable()), ValueError);
  CHECK_THROWS_AS(Variable()[0], ValueError);
  CHECK_THROWS_AS(Variable()[Slice()], ValueError);
  CHECK_THROWS_AS(x[0] = Variable(), ValueError);
}

TEST_CASE("index: index tensors along or before the samples' dimension make their layout unknown") {
  const Variable x = Variable(Tensor::zeros({3, 4, 5}, f64));
  set_sample_layout(x, samples_along(1));
  const Tensor ids = Tensor::from<int64_t>({0, 1});
  const auto kind = [](const Variable& y) { return y.impl()->samples.kind; };
  CHECK(kind(x.index({Slice(), Slice(), ids})) == SampleLayout::Kind::along);
  CHECK(kind(x.index({Slice(), ids})) == SampleLayout::Kind::unknown);
  CHECK(kind(x.index({ids})) == SampleLayout::Kind::unknown);
  CHECK(kind(x.index({ids, Slice(), ids})) == SampleLayout::Kind::unknown);
}

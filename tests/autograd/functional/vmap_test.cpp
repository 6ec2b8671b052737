// vmap on all samples at once: values and gradients are those of the loop, without falling back to it.

#include <doctest/doctest.h>

#include <set>

#include "autograd/debug/anomaly.h"
#include "autograd/debug/gradcheck.h"
#include "autograd/functional/derivatives.h"
#include "autograd/functional/transforms.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/in_place.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/indexing/sorting.h"
#include "autograd/functions/layers/attention.h"
#include "autograd/functions/layers/convolution.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "autograd/recompute/checkpoint.h"
#include "tensor/index.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/reduction.h"

using namespace tessera;
namespace functional = autograd::functional;

namespace {

using List = std::vector<Variable>;
using Function = std::function<Variable(const Variable& x, const Variable& w)>;

constexpr auto shared = std::nullopt;

Tensor values(const Shape& shape, uint64_t key) {
  const Tensor x = Tensor::empty(shape, f64);
  ops::fill_normal(x, key);
  return x;
}

double largest_difference(const Variable& a, const Variable& b) {
  if (a.shape() != b.shape()) return 1e30;
  const Tensor x = a.value().contiguous(), y = b.value().contiguous();
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i)
    largest = std::max(largest, std::abs(x.data<double>()[i] - y.data<double>()[i]));
  return largest;
}

struct Outcome {
  Variable y, dx, dw, dc;  // and the gradients by samples, by a shared input, by a captured Variable
  std::string fallback;
};

/// vmap of f over x (5, 3, 4), with w (4, 4) and `captured` (4) the same for all samples.
Outcome run(const std::function<Variable(const Variable& x, const Variable& w, const Variable& c)>& f,
            bool loop) {
  const Variable x = Variable::leaf(values({5, 3, 4}, 1)), w = Variable::leaf(values({4, 4}, 2)),
                 c = Variable::leaf(values({4}, 3));
  Outcome outcome;
  const auto mapped = functional::vmap([&](const Variable& a, const Variable& b) { return f(a, b, c); },
                                       {.in_dims = {0, shared},
                                        .on_fallback = [&](const std::string& op) { outcome.fallback = op; },
                                        .always_loop = loop});
  outcome.y = mapped(x, w);
  if (outcome.y.requires_grad()) {
    Variable weights = values(outcome.y.shape(), 4);
    sum(outcome.y * weights).backward();
  }
  const auto gradient = [](const Variable& leaf) {
    return leaf.grad().defined() ? leaf.grad() : Variable(Tensor::zeros_like(leaf.value()));
  };
  outcome.dx = gradient(x);
  outcome.dw = gradient(w);
  outcome.dc = gradient(c);
  return outcome;
}

using V = const Variable&;
struct Row {
  const char* name;
  std::function<Variable(V x, V w, V c)> f;
};

const Row rows[] = {
    {"pointwise", [](V x, V, V) { return tanh(exp(x * 0.3) + sin(x)) / (square(x) + 1.0); }},
    {"broadcasting with shared operands", [](V x, V w, V c) { return x * c + select(w, 0, 1) - c * x; }},
    {"shared with shared", [](V x, V w, V c) { return x + select(w, 0, 0) * c; }},
    {"scalars", [](V x, V, V) { return 2.0 / (x * x + 3.0) - pow(x, 3.0); }},
    {"maximum", [](V x, V, V c) { return maximum(x, c) * minimum(x, 0.5); }},
    {"where", [](V x, V w, V c) { return where(ops::greater(x.value(), Scalar(0)), x * c, select(w, 0, 2)); }},
    {"clamp", [](V x, V, V) { return clamp(x, -0.5, 0.7) * x; }},
    {"lerp", [](V x, V, V c) { return addcmul(lerp(x, c, 0.3), x, c, 2.0); }},
    {"sum", [](V x, V, V) { return sum(x * x, {1}) * sum(x); }},
    {"mean keepdim", [](V x, V, V) { return x - mean(x, {0}, true); }},
    {"max along", [](V x, V, V) { return max(x, Shape{0}) + min(x, Shape{0}); }},
    {"max and index", [](V x, V, V) { return x.max(1).values; }},
    {"var", [](V x, V, V) { return var(x, {1}, false, 1) + x.std({0, 1}); }},
    {"prod", [](V x, V, V) { return prod(x, {1}, false); }},
    {"logsumexp", [](V x, V, V) { return logsumexp(x, {1}, false) + norm(x, 2.0, {1}, false); }},
    {"matmul, shared second", [](V x, V w, V) { return matmul(x, w); }},
    {"matmul, shared first", [](V x, V w, V) { return matmul(w, transpose(x, 0, 1)); }},
    {"matmul, both", [](V x, V, V) { return matmul(x, transpose(x, 0, 1)); }},
    {"matmul, vectors", [](V x, V w, V c) { return matmul(w, select(x, 0, 1)) + matmul(x, c).sum() * matmul(c, w); }},
    {"matmul, batch", [](V x, V w, V) { return matmul(stack({x, x * 2.0}), w); }},
    {"matmul, two samples' vectors", [](V x, V, V) { return dot(select(x, 0, 0), select(x, 0, 2)); }},
    {"linear", [](V x, V w, V c) { return linear(x, w, c); }},
    {"gelu", [](V x, V w, V c) { return relu(linear(gelu(x), w, c)) + silu(x); }},
    {"reshape", [](V x, V, V) { return reshape(transpose(x, 0, 1), {2, 6}) * 2.0; }},
    {"views", [](V x, V, V) { return unsqueeze(permute(x, {1, 0}), 1) + narrow(flatten(x), 0, 2, 3); }},
    {"expand", [](V x, V, V c) { return expand(unsqueeze(x, 0), {2, 3, 4}) * expand(c, {3, 4}); }},
    {"slice", [](V x, V, V) { return slice(x, 1, 0, 4, 2) * select(x, 1, 3).unsqueeze(1); }},
    {"cat", [](V x, V w, V) { return cat({x, w, x * x}, 0); }},
    {"cat, shared first", [](V x, V w, V) { return cat({w, x}, 0); }},
    {"stack", [](V x, V w, V) { return stack({select(x, 0, 0), select(w, 0, 0)}, 1); }},
    {"split", [](V x, V, V) {
       const List parts = split(x, {1, 3}, 1);
       return parts[0] * parts[1];
     }},
    {"pad", [](V x, V, V) { return pad(x, {1, 0}, {0, 2}, 0.5) * 2.0; }},
    {"flip, roll, tril", [](V x, V, V) { return flip(x, {1}) + roll(x, 1, 0) + tril(x) + triu(x, 1); }},
    {"repeat", [](V x, V, V) { return repeat(x, {2, 1}); }},
    {"softmax", [](V x, V, V c) { return softmax(x * c, 1) + log_softmax(x, 0); }},
    {"convolution, shared weight", [](V x, V w, V c) {
       return conv1d(x, reshape(narrow(w, 0, 0, 3), {2, 3, 2}), narrow(c, 0, 0, 2), 1, 1);
     }},
    {"convolution, shared input", [](V x, V w, V) { return conv1d(w, reshape(x, {1, 4, 3})); }},
    {"convolution with relu", [](V x, V w, V c) {
       return conv1d_relu(x, reshape(narrow(w, 0, 0, 3), {2, 3, 2}), narrow(c, 0, 0, 2), 1, 1);
     }},
    {"convolution with a shared sum and relu", [](V x, V w, V c) {
       const Variable added = narrow(narrow(w, 0, 0, 2), 1, 0, 3);
       return conv1d_add_relu(x, added, reshape(narrow(w, 0, 0, 3), {2, 3, 2}), narrow(c, 0, 0, 2));
     }},
    {"shared convolution with a sum and relu", [](V x, V w, V) {
       const Variable added = narrow(narrow(x, 0, 0, 1), 1, 0, 2);
       return conv1d_add_relu(w, added, reshape(narrow(w, 0, 0, 3), {1, 4, 3}));
     }},
    {"transposed convolution", [](V x, V w, V c) { return conv_transpose1d(w, reshape(x, {4, 1, 3}), narrow(c, 0, 0, 1), 2); }},
    {"unfold, fold", [](V x, V, V) { return fold(unfold(unsqueeze(x, 0), 2) * 2.0, {3, 4}, 2); }},
    {"cumsum and sort", [](V x, V, V) { return cumsum(x, 0) + sort(x, 1).values * x; }},
    {"topk", [](V x, V, V) { return topk(x, 2, 1).values; }},
    {"layer norm", [](V x, V, V c) { return layer_norm(x, c, c * 2.0) + rms_norm(x, c); }},
    {"cross entropy", [](V x, V w, V) {
       return cross_entropy(matmul(x, w), Tensor::from({int64_t{1}, int64_t{0}, int64_t{3}}));
     }},
    {"mse", [](V x, V w, V) { return mse_loss(matmul(x, w), x); }},
    {"index_select", [](V x, V w, V) {
       const Tensor ids = Tensor::from({int64_t{2}, int64_t{0}, int64_t{2}});
       return index_select(x, 0, ids) * index_select(w, 1, Tensor::from({int64_t{1}, int64_t{1}, int64_t{0}, int64_t{2}})).narrow(0, 0, 3);
     }},
    {"gather", [](V x, V, V) { return gather(x, 1, ops::argmax(x.value(), 1, true)); }},
    {"indexing", [](V x, V, V) { return x.index({Slice(1), Tensor::from({int64_t{3}, int64_t{1}})}) * 2.0; }},
    {"in place", [](V x, V w, V c) {
       const Variable y = x * 2.0;
       y.mul_(c).add_(select(w, 0, 0));
       select(y, 0, 1).mul_(x.select(0, 0));
       return y * x;
     }},
    {"a constant of one sample's shape", [](V x, V, V) {
       const Variable ones(ops::ones({3, 4}, f64));
       return x * ones + Variable(Tensor::zeros_like(x.value()));
     }},
    {"a result that does not depend on the sample", [](V, V w, V c) { return matmul(w, c); }},
    {"a constant result", [](V, V, V) { return Variable(ops::ones({2}, f64)); }},
    {"the sample itself", [](V x, V, V) { return x; }},
    {"clone and cast", [](V x, V, V) { return cast(cast(x.clone(), f32), f64); }},
};

}  // namespace

TEST_CASE("vmap: rules give the values and gradients of the loop") {
  for (const Row& row : rows) {
    const std::string name = row.name;
    CAPTURE(name);
    const Outcome batched = run(row.f, false), loop = run(row.f, true);
    CHECK(batched.fallback == "");
    CHECK(largest_difference(batched.y, loop.y) < 1e-12);
    CHECK(largest_difference(batched.dx, loop.dx) < 1e-11);
    CHECK(largest_difference(batched.dw, loop.dw) < 1e-11);
    CHECK(largest_difference(batched.dc, loop.dc) < 1e-11);
  }
}

TEST_CASE("vmap: per-sample gradients of the rules, by shared and by captured Variables, are the loop's") {
  for (const Row& row : rows) {
    const std::string name = row.name;
    CAPTURE(name);
    const Variable x = values({5, 3, 4}, 1), w = values({4, 4}, 2), c = values({4}, 3);
    std::string fallback;
    const auto gradients = [&](bool loop) {
      const auto of_sample = functional::grad(
          [&](const Variable& a, const Variable& b, const Variable& d) {
            const Variable y = row.f(a, b, d);
            return sum(y * y) + sum(a) * 0.0;
          },
          std::vector<size_t>{0, 1, 2});
      const functional::VmapOptions options{.in_dims = {0, shared, shared},
                                            .on_fallback = [&](const std::string& op) { fallback = op; },
                                            .always_loop = loop};
      return functional::vmap(of_sample, options)(x, w, c);
    };
    const List batched = gradients(false), loop = gradients(true);
    CHECK(fallback == "");
    REQUIRE(batched.size() == 3);
    CHECK(batched[1].shape() == Shape{5, 4, 4});
    for (size_t i = 0; i < 3; ++i) CHECK(largest_difference(batched[i], loop[i]) < 1e-11);
    const List without_history = no_grad([&] { return gradients(false); });
    for (size_t i = 0; i < 3; ++i) CHECK(largest_difference(without_history[i], loop[i]) < 1e-11);
  }
}

TEST_CASE("vmap: first and second derivatives against finite differences, without a loop") {
  const Variable x = Variable::leaf(values({2, 3, 4}, 1)), w = Variable::leaf(values({4, 4}, 2));
  int fallbacks = 0;
  const auto f = [&](std::span<const Variable> in) -> List {
    const auto of_sample = [&](const Variable& a, const Variable& b) {
      return functional::grad([&](const Variable& v) { return sum(tanh(matmul(a, v)) * softmax(a, 1)); })(b);
    };
    const auto values_of = [](const Variable& a, const Variable& b) { return layer_norm(matmul(a, b)); };
    const functional::VmapOptions options{.in_dims = {0, shared},
                                          .on_fallback = [&](const std::string&) { ++fallbacks; }};
    return {functional::vmap(of_sample, options)(in[0], in[1]),
            functional::vmap(values_of, options)(in[0], in[1])};
  };
  const GradcheckResult first = gradcheck(f, List{x, w}), second = gradgradcheck(f, List{x, w});
  CHECK_MESSAGE(first.passed, first.message);
  CHECK_MESSAGE(second.passed, second.message);
  CHECK(fallbacks == 0);
}

TEST_CASE("vmap: runs the function once, and the results are Variables like any other") {
  int calls = 0;
  Device inside = cpu();
  const auto f = functional::vmap([&](const Variable& x) {
    ++calls;
    inside = x.device();
    return exp(x);
  });
  const Variable x = Variable::leaf(values({7, 3}, 1));
  const Variable y = f(x);
  CHECK(calls == 1);
  CHECK(inside.is_batched());
  CHECK(inside.samples == 7);
  CHECK(to_string(inside) == "cpu, batched by 7");
  CHECK(y.device() == cpu());
  CHECK(y.shape() == Shape{7, 3});
  CHECK(largest_difference(y, exp(x)) == 0);
  // A saved value that the result shares memory with is checked as any other.
  no_grad([&] { y.mul_(2.0); });
  CHECK_THROWS_WITH_AS(sum(y).backward(), doctest::Contains("changed in place"), AutogradError);
  // The result of the identity is a copy.
  const Variable constant = values({7, 3}, 1);
  const Variable same = functional::vmap([](const Variable& a) { return a; })(constant);
  CHECK_FALSE(same.value().shares_storage(constant.value()));
}

TEST_CASE("vmap: other dimensions of samples, of inputs and of results, without a loop") {
  int fallbacks = 0;
  const auto f = [](const Variable& a, const Variable& b) { return matmul(a, b); };
  const Variable a = values({3, 5, 4}, 1), b = values({4, 5}, 2);
  const Variable y = functional::vmap(
      f, {.in_dims = {1, -1}, .out_dim = 1, .on_fallback = [&](const std::string&) { ++fallbacks; }})(a, b);
  REQUIRE(y.shape() == Shape{3, 5});
  for (int64_t n = 0; n < 5; ++n)
    CHECK(largest_difference(select(y, 1, n), matmul(select(a, 1, n), select(b, 1, n))) < 1e-14);
  CHECK(fallbacks == 0);
}

TEST_CASE("vmap: what has no rule runs in a loop, and the operation is named") {
  const Variable x = Variable::leaf(values({4, 3}, 1));
  std::vector<std::string> named;
  const functional::VmapOptions options{.on_fallback = [&](const std::string& op) { named.push_back(op); }};
  const auto branches = [](const Variable& a) {
    return a.value().select(0, 0).item() > 0 ? a * 2.0 : a * -1.0;
  };
  const Variable y = functional::vmap(branches, options)(x);
  CHECK(named == std::vector<std::string>{"item"});
  for (int64_t n = 0; n < 4; ++n) CHECK(largest_difference(select(y, 0, n), branches(select(x, 0, n))) == 0);
  sum(y).backward();
  CHECK(x.grad().defined());
  named.clear();
  const auto attention = [](const Variable& a) {
    const Variable q = reshape(a, {1, 1, 3, 1});
    return scaled_dot_product_attention(q, q, q);
  };
  CHECK(functional::vmap(attention, options)(x).shape() == Shape{4, 1, 1, 3, 1});
  CHECK(named == std::vector<std::string>{"attention"});
  named.clear();
  functional::vmap([](const Variable& a) { return checkpoint([](const Variable& b) { return exp(b); }, a); },
                   options)(x);
  CHECK(named == std::vector<std::string>{"checkpoint"});
  named.clear();
  functional::vmap(
      [&](const Variable& a) { return functional::vmap([](const Variable& b) { return b * 2.0; })(a); },
      options)(x);
  CHECK(named == std::vector<std::string>{"vmap"});
  // A change of something that all samples share, which a loop makes for each of them.
  named.clear();
  const Tensor total = Tensor::zeros({3}, f64);
  functional::vmap(
      [&](const Variable& a) {
        ops::add_(total, a.value());
        return a * 1.0;
      },
      options)(x);
  REQUIRE(named.size() == 1);
  CHECK(named[0].find("all samples share") != std::string::npos);
  CHECK(largest_difference(Variable(total), sum(x, {0})) < 1e-15);
  // A gradient by a captured Variable: each sample has its own.
  named.clear();
  const Variable w = Variable::leaf(values({3}, 2));
  const auto by_captured = [&](const Variable& a) { return tessera::grad(List{sum(a * w)}, List{w})[0]; };
  const Variable own = functional::vmap(by_captured, options)(x);
  CHECK(named.size() == 1);
  CHECK(largest_difference(own, x) == 0);
}

TEST_CASE("vmap: an error of the function is not a reason for a loop") {
  const Variable x = values({4, 3}, 1);
  int fallbacks = 0;
  const functional::VmapOptions options{.on_fallback = [&](const std::string&) { ++fallbacks; }};
  CHECK_THROWS_AS(functional::vmap([](const Variable& a) { return matmul(a, Variable(ops::ones({4}, f64))); },
                                   options)(x),
                  ShapeError);
  CHECK_THROWS_WITH_AS(functional::vmap([](const Variable&) { return Variable(); }, options)(x),
                       doctest::Contains("result 0 of the function is undefined"), ValueError);
  const auto in_place = [](const Variable& a) {
    a.mul_(2.0);
    return a;
  };
  CHECK_THROWS_WITH_AS(functional::vmap(in_place, options)(Variable::leaf(values({4, 3}, 1))),
                       doctest::Contains("one of several results"), AutogradError);
  CHECK(fallbacks == 0);
}

TEST_CASE("vmap: anomaly mode reads all samples") {
  const AnomalyMode anomaly;
  const Variable x = Variable::leaf(Tensor::from({1.0, 2.0, 4.0, 0.0}, {4, 1}));
  int fallbacks = 0;
  const functional::VmapOptions options{.on_fallback = [&](const std::string&) { ++fallbacks; }};
  CHECK_THROWS_WITH_AS(functional::vmap([](const Variable& a) { return log(a - 1.5); }, options)(x),
                       doctest::Contains("the forward of 'log' produced NaN at element (0,)"),
                       NonFiniteError);
  // In backward: 0 / 0 at the square root of 0.
  const Variable y = functional::vmap([](const Variable& a) { return sqrt(a) * 0.0; }, options)(x);
  CHECK_THROWS_WITH_AS(sum(y).backward(), doctest::Contains("the backward of 'sqrt'"), NonFiniteError);
  CHECK(fallbacks == 0);
}

TEST_CASE("vmap: random numbers are an error, different or the same, at once and in a loop") {
  using functional::Randomness;
  const Variable x = Tensor::zeros({6, 3}, f64);
  const auto draws = [](const Variable& a) { return a + Variable(rand({3}, f64)); };
  const auto draws_like = [](const Variable& a) { return a + Variable(rand_like(a.value())); };
  const auto fills = [](const Variable& a) {
    const Tensor noise = Tensor::zeros_like(a.value());
    normal_(noise);
    return a + Variable(noise);
  };
  for (const bool loop : {false, true})
    for (const auto& f :
         {Function([&](V a, V) { return draws(a); }), Function([&](V a, V) { return draws_like(a); }),
          Function([&](V a, V) { return fills(a); })}) {
      CAPTURE(loop);
      int fallbacks = 0;
      const auto mapped = [&](Randomness randomness) {
        manual_seed(5);
        return functional::vmap([&](const Variable& a) { return f(a, a); },
                                {.randomness = randomness,
                                 .on_fallback = [&](const std::string&) { ++fallbacks; },
                                 .always_loop = loop})(x);
      };
      CHECK_THROWS_WITH_AS(mapped(Randomness::error), doctest::Contains("Randomness::different"), ValueError);
      const Variable same = mapped(Randomness::same), different = mapped(Randomness::different);
      std::set<double> seen;
      for (int64_t i = 0; i < 18; ++i) seen.insert(different.value().data<double>()[i]);
      CHECK(seen.size() == 18);
      for (int64_t n = 1; n < 6; ++n) CHECK(largest_difference(select(same, 0, n), select(same, 0, 0)) == 0);
      CHECK(largest_difference(mapped(Randomness::different), different) == 0);
      CHECK(fallbacks == 0);
    }
  // With a key of its own a fill is no draw from the generator.
  const auto keyed = [](const Variable& a) {
    const Tensor noise = Tensor::zeros_like(a.value());
    ops::fill_uniform(noise, 9);
    return a + Variable(noise);
  };
  const Variable y = functional::vmap(keyed)(x);
  CHECK(largest_difference(select(y, 0, 4), select(y, 0, 0)) == 0);
  // A tensor that all samples share has no place for different numbers.
  const Tensor shared_noise = Tensor::zeros({3}, f64);
  std::string named;
  const auto fills_shared = [&](const Variable& a) {
    uniform_(shared_noise);
    return a + Variable(shared_noise.clone());
  };
  const Variable z = functional::vmap(
      fills_shared,
      {.randomness = Randomness::different, .on_fallback = [&](const std::string& op) { named = op; }})(x);
  CHECK(named == "uniform_");
  CHECK(largest_difference(select(z, 0, 4), select(z, 0, 0)) > 0);
}

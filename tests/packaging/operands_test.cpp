// Every combination of Tensor, Variable and numbers compiles through the umbrella header, and has the type
// that it should: a Tensor of Tensors alone, a Variable where one takes part, a Tensor where there is no
// gradient.
#include <tessera/tessera.h>

#include <doctest/doctest.h>

#include <cmath>
#include <iostream>
#include <sstream>
#include <type_traits>

using namespace tessera;

namespace {

template <class A, class B>
constexpr bool can_add_in_place = requires(const A& a, const B& b) {
  a += b;
};

template <class Expected, class T>
void check_type(const T& result) {
  static_assert(std::is_same_v<Expected, T>);
  CHECK(result.defined());
}

/// a op b for all operators and functions of two operands.
template <class Expected, class A, class B>
void check_binary(const A& a, const B& b) {
  check_type<Expected>(a + b);
  check_type<Expected>(a - b);
  check_type<Expected>(a * b);
  check_type<Expected>(a / b);
  check_type<Expected>(add(a, b));
  check_type<Expected>(sub(a, b));
  check_type<Expected>(mul(a, b));
  check_type<Expected>(div(a, b));
  check_type<Expected>(pow(a, b));
  check_type<Expected>(maximum(a, b));
  check_type<Expected>(minimum(a, b));
  check_type<Tensor>(a == b);
  check_type<Tensor>(a != b);
  check_type<Tensor>(a < b);
  check_type<Tensor>(a <= b);
  check_type<Tensor>(a > b);
  check_type<Tensor>(a >= b);
  check_type<Expected>(where(tensor({true, false}), a, b));
}

template <class Expected, class A, class B>
void check_tensors(const A& a, const B& b) {
  check_binary<Expected>(a, b);
  check_type<Expected>(max(a, b));
  check_type<Expected>(min(a, b));
  check_type<Expected>(matmul(a, b));
  check_type<Expected>(dot(a, b));
  check_type<Expected>(outer(a, b));
  check_type<Expected>(lerp(a, b, 0.5));
  check_type<Expected>(addcmul(a, b, b));
  check_type<Expected>(cat({a, b}, -1));
  check_type<Expected>(stack({a, b}, 0));
  check_type<Tensor>(equal(a, b));
  check_type<Tensor>(logical_and(a, b));
  CHECK(allclose(a, b) == allclose(b, a));
}

template <class X>
void check_with_numbers(const X& x) {
  check_binary<X>(x, 2);
  check_binary<X>(2, x);
  check_binary<X>(x, 2.0);
  check_binary<X>(2.0, x);
  check_binary<X>(x, 2.0f);
  check_binary<X>(x, int64_t{2});
  check_type<X>(max(x, 1.0));
  check_type<X>(max(1.0, x));
  check_type<X>(min(x, 1.0f));
  check_type<X>(pow(10000.0, x));
  check_type<X>(clamp(x, 0, 1));
  check_type<X>(clamp(x, 0.5, std::nullopt));
  check_type<X>(clamp(x, {}, 1));
  check_type<X>(masked_fill(x, x > 1, 0));
}

template <class X>
void check_functions(const X& x) {  // (2,)
  check_type<X>(exp(x) + log(x) + sqrt(x) + abs(x) + sin(x) + cos(x) + tanh(x) + sigmoid(x) + relu(x) +
                floor(x));
  check_type<X>(-x + round(x) + ceil(x) + erf(x) + log2(x) + exp2(x) + trunc(x) + square(x));
  check_type<X>(sum(x) + sum(x, 0) + sum(x, {0}) + sum(x, {0}, true) + mean(x, -1) + prod(x) + var(x) +
                stddev(x));
  check_type<X>(max(x) + min(x) + max(x, {0}) + amax(x, 0) + norm(x) + norm(x, 1, 0) + logsumexp(x, 0) +
                median(x));
  check_type<X>(max(x, 0).values + min(x, 0, true).values + median(x, 0).values + sort(x).values +
                topk(x, 1).values);
  check_type<Tensor>(max(x, 0).indices);
  check_type<Tensor>(argmax(x) + argmin(x, 0) + argsort(x, 0, true));
  check_type<Tensor>((any(x) & all(x, 0)) | (isnan(x) ^ isfinite(x)));
  check_type<Tensor>(!x);
  check_type<Tensor>(!(x > 1));
  check_type<X>(reshape(x, {2, 1}) + view(x, {2, 1}) + unsqueeze(x, 1) + expand(unsqueeze(x, 1), {2, 2}));
  check_type<X>(transpose(reshape(x, {1, 2}), 0, 1) + permute(reshape(x, {1, 2}), {1, 0}) +
                t(reshape(x, {1, 2})));
  check_type<X>(flatten(x) + narrow(x, 0, 0, 1) + select(x, 0, 0) + slice(x, 0, 0, 2) + squeeze(x) +
                flip(x, 0));
  check_type<X>(softmax(x) + log_softmax(x, 0) + cumsum(x, 0) + roll(x, 1, 0) + repeat(x, 1) + clone(x) +
                cast(x, f32));
  check_type<X>(tril(reshape(x, {1, 2})) + triu(reshape(x, {1, 2}), 1) +
                pad(reshape(x, {1, 2}), {0, 0}, {0, 0}));
  check_type<X>(gather(x, 0, argsort(x)) + index_select(x, 0, argsort(x)) + contiguous(x) + gelu(x) +
                silu(x));
  check_type<Tensor>(zeros_like(x) + ones_like(x) + full_like(x, 2) + rand_like(x) + randn_like(x));
  auto [a, b] = chunk<2>(x, -1);
  auto [c, d] = x.template chunk<2>(-1);
  check_type<X>(a + b + c + d + split(x, {1, 1}, 0)[0] + split(x, 1)[1] + chunk(x, 2, -1)[0] + unbind(x)[0]);
  std::ostringstream stream;
  stream << x;
  CHECK(!stream.str().empty());
}

}  // namespace

TEST_CASE("operands: two Tensors give a Tensor, a Variable among them a Variable") {
  const Tensor t = tensor({1.0, 2.0});
  const Variable v = Variable::leaf(tensor({3.0, 4.0}));
  check_tensors<Tensor>(t, t);
  check_tensors<Variable>(t, v);
  check_tensors<Variable>(v, t);
  check_tensors<Variable>(v, v);
}

TEST_CASE("operands: numbers on either side") {
  check_with_numbers(tensor({1.0, 2.0}));
  check_with_numbers(Variable::leaf(tensor({1.0, 2.0})));
}

TEST_CASE("operands: functions of one operand") {
  check_functions(tensor({1.0, 2.0}));
  check_functions(Variable::leaf(tensor({1.0, 2.0})));
  CHECK(exp(1.0) == std::exp(1.0));  // numbers keep the functions of <cmath>
  CHECK(std::max(1, 2) == 2);
}

TEST_CASE("operands: creation and random tensors") {
  manual_seed(1);
  check_type<Tensor>(zeros({2, 3}) + ones({2, 3}) + empty({2, 3}).zero_() + full({2, 3}, 0.5) + eye(2, 3));
  check_type<Tensor>(randn({2, 3}) + rand({2, 3}) + bernoulli(rand({2, 3})) + linspace(0, 1, 3));
  check_type<Tensor>(arange(5) + arange(0, 5) + arange(0, 10, 2) + randperm(5) + randint(3, {5}) +
                     randint(0, 3, {5}));
  check_type<Tensor>(arange(0.0, 1.0, 0.5) + arange(2.0));
  Variable w = randn({3, 4});
  w.requires_grad_();
  w.matmul(randn({4})).sum().backward();
  CHECK(w.grad().defined());
}

TEST_CASE("operands: compound assignment") {
  Tensor t = tensor({1.0, 2.0});
  t += t;
  t *= 2;
  t -= 1.0;
  t /= 3;
  const Variable x = Variable::leaf(tensor({1.0, 2.0}));
  Variable v = x * 1;
  v += t;
  v *= x;
  v -= 1;
  v /= 2.0;
  v.sum().backward();
  CHECK(x.grad().defined());
  static_assert(!can_add_in_place<Tensor, Variable>);
  static_assert(can_add_in_place<Variable, Tensor>);
}

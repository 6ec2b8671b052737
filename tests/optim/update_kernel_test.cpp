#include <doctest/doctest.h>

#include <cmath>

#include "optim/rules/adam.h"
#include "optim/rules/rmsprop.h"
#include "optim/rules/sgd.h"
#include "tensor/cpu/isa.h"
#include "tensor/threads/parallel.h"
#include "tests/optim/optimizer_cases.h"

using namespace tessera;
using namespace tessera::test;
using kernels::cpu::Isa;

namespace {

/// A value in [-1, 1), a function of its index only.
float sample(int64_t i) {
  const uint32_t mixed = static_cast<uint32_t>(i) * 2654435761u;
  return std::ldexp(static_cast<float>(static_cast<int32_t>(mixed ^ (mixed >> 15))), -31);
}

/// Elements [begin, end) of one long parameter after three steps with the same elements of its gradients.
Tensor train(int64_t begin, int64_t end, DType gradient_dtype, const MakeOptimizer& make) {
  Tensor p = Tensor::empty({end - begin}, f32);
  for (int64_t i = begin; i < end; ++i) p.data<float>()[i - begin] = sample(i + 1000003);
  const Variable parameter = Variable::parameter(p);
  ParameterList list;
  list.push_back({"p", parameter});
  const std::unique_ptr<optim::Optimizer> optimizer = make(list);
  for (int64_t step = 0; step < 3; ++step) {
    Tensor g = Tensor::empty({end - begin}, gradient_dtype);
    for (int64_t i = begin; i < end; ++i) {
      const float value = sample(i * 3 + step);
      if (gradient_dtype == f32) g.data<float>()[i - begin] = value;
      if (gradient_dtype == bf16) g.data<bfloat16>()[i - begin] = bfloat16(value);
      if (gradient_dtype == f16) g.data<float16>()[i - begin] = float16(value);
    }
    parameter.set_grad_dtype(gradient_dtype);
    parameter.set_grad(Variable(g));
    optimizer->step();
  }
  return p;
}

/// Restores the number of threads at the end of its scope.
struct ThreadCountScope {
  int threads = num_threads();
  ~ThreadCountScope() { set_num_threads(threads); }
};

constexpr int64_t length = 50021;

}  // namespace

TEST_CASE("update kernels: the bits depend on neither threads nor instruction set") {
  const ThreadCountScope thread_count;
  for (const OptimizerCase& optimizer : optimizer_cases())
    for (const DType dtype : {f32, bf16, f16}) {
      CAPTURE(optimizer.name);
      CAPTURE(to_string(dtype));
      set_num_threads(1);
      const Tensor expected = train(0, length, dtype, optimizer.fused);
      for (const int threads : {2, 5}) {
        set_num_threads(threads);
        CHECK(same_bits(train(0, length, dtype, optimizer.fused), expected));
      }
      for (const Isa isa : {Isa::baseline, Isa::avx2}) {
        const kernels::cpu::IsaScope scope(isa);
        CHECK(same_bits(train(0, length, dtype, optimizer.fused), expected));
      }
    }
}

TEST_CASE("update kernels: a shard has the bits of the full parameter, for any bounds") {
  for (const OptimizerCase& optimizer : optimizer_cases()) {
    CAPTURE(optimizer.name);
    const Tensor full = train(0, 200, f32, optimizer.fused);
    for (int64_t cut = 1; cut < 200; cut += 13) {
      CHECK(same_bits(train(0, cut, f32, optimizer.fused), full.slice(0, 0, cut)));
      CHECK(same_bits(train(cut, 200, f32, optimizer.fused), full.slice(0, cut, 200)));
    }
  }
}

TEST_CASE("update kernels: many parameters in one update have the bits of separate updates") {
  ParameterList together;
  std::vector<Tensor> separate;
  for (const int64_t n : {3, 5000, 1, 0, 2048, 4097}) {
    const Variable a = Variable::parameter(Tensor::zeros({n}, f32)),
                   b = Variable::parameter(Tensor::zeros({n}, f32));
    Tensor g = Tensor::empty({n}, f32);
    for (int64_t i = 0; i < n; ++i) g.data<float>()[i] = sample(i + n);
    a.set_grad(Variable(g));
    b.set_grad(Variable(g));
    together.push_back({text("p", n), a});
    ParameterList single;
    single.push_back({"p", b});
    optim::AdamW(single).step();
    separate.push_back(b.value());
  }
  optim::AdamW(together).step();
  for (size_t i = 0; i < separate.size(); ++i) CHECK(same_bits(together[i].variable.value(), separate[i]));
}

TEST_CASE("update kernels: an f16 or bf16 gradient is converted to the f32 value that it represents") {
  for (const OptimizerCase& optimizer : optimizer_cases()) {
    CAPTURE(optimizer.name);
    ParameterList list;
    for (const DType dtype : {f32, bf16, f16}) {
      const Variable p = Variable::parameter(Tensor::from({0.5f, -2.0f, 3.0f}));
      p.set_grad_dtype(dtype);
      if (dtype == f32) p.set_grad(Variable(Tensor::from({0.25f, -1.5f, 8.0f})));
      if (dtype == bf16)
        p.set_grad(Variable(Tensor::from({bfloat16(0.25f), bfloat16(-1.5f), bfloat16(8.0f)})));
      if (dtype == f16) p.set_grad(Variable(Tensor::from({float16(0.25f), float16(-1.5f), float16(8.0f)})));
      list.push_back({to_string(dtype), p});
    }
    optimizer.fused(list)->step();
    CHECK(same_bits(list[1].variable.value(), list[0].variable.value()));
    CHECK(same_bits(list[2].variable.value(), list[0].variable.value()));
  }
}

TEST_CASE("update kernels: subnormal f32 values are flushed to zero in every thread") {
  const ThreadCountScope thread_count;
  set_num_threads(2);
  const int64_t n = 100000;
  const Variable p = Variable::parameter(Tensor::zeros({n}, f32));
  Tensor g = Tensor::empty({n}, f32);
  for (int64_t i = 0; i < n; ++i) g.data<float>()[i] = 1e-19f;  // 0.001 g^2 is 1e-41, subnormal
  p.set_grad(Variable(g));
  ParameterList list;
  list.push_back({"p", p});
  optim::Adam adam(list);
  adam.step();
  for (const NamedTensor& entry : adam.state().tensors) {
    if (entry.name != "exp_avg_sq/p") continue;
    bool all_zero = true;
    for (int64_t i = 0; i < n; ++i) all_zero &= entry.tensor.data<float>()[i] == 0.0f;
    CHECK(all_zero);
  }
}

TEST_CASE("update kernels: a centered variance that rounding makes negative gives no NaN") {
  const Variable p = Variable::parameter(Tensor::from({1.0f}));
  ParameterList list;
  list.push_back({"p", p});
  optim::RMSprop rmsprop(list, {.lr = 1e-9, .alpha = 0.1, .centered = true});
  for (int step = 0; step < 200; ++step) {  // the variance of a constant is zero, up to rounding
    p.set_grad(Variable(Tensor::from({3.3333333f + 1e-7f * static_cast<float>(step % 3)})));
    rmsprop.step();
  }
  CHECK(std::isfinite(p.value().item()));
}

TEST_CASE("update kernels: raw updates check their arguments") {
  ops::UpdateItem item{.parameter = Tensor::zeros({2}, f32),
                       .gradient = Tensor::zeros({2}, f32),
                       .step = Tensor::zeros({}, i64),
                       .name = "w"};
  using Group = ops::UpdateGroup<elementwise::SgdRule>;
  const Group group{.lr = Tensor::scalar(0.1),
                    .rule = {.momentum = 0.0, .dampening = 0.0, .weight_decay = 0.0, .nesterov = false}};
  const auto run = [&](const ops::UpdateItem& update, const Group& options, const Tensor& clip = {}) {
    ops::optimizer_update<elementwise::SgdRule>({&update, 1}, {&options, 1}, clip);
  };
  run(item, group);
  CHECK(item.step.item_i64() == 1);
  const auto changed = [&](const auto& change) {
    ops::UpdateItem copy = item;
    change(copy);
    return copy;
  };
  CHECK_THROWS_WITH_AS(
      run(changed([](auto& i) { i.gradient = Tensor::zeros({3}, f32); }), group),
      doctest::Contains("sgd_update: parameter 'w': expected a contiguous gradient of shape (2,)"),
      ShapeError);
  CHECK_THROWS_AS(run(changed([](auto& i) { i.gradient = Tensor::zeros({2}, f64); }), group), DTypeError);
  CHECK_THROWS_AS(run(changed([](auto& i) { i.parameter = Tensor::zeros({2}, bf16); }), group), DTypeError);
  CHECK_THROWS_AS(
      run(changed([](auto& i) { i.parameter = Tensor::zeros({4}, f32).slice(0, 0, 4, 2); }), group),
      ShapeError);
  CHECK_THROWS_AS(run(changed([](auto& i) { i.step = Tensor::zeros({}, f32); }), group), DTypeError);
  CHECK_THROWS_AS(run(changed([](auto& i) { i.group = 1; }), group), IndexError);
  Group with_momentum = group;
  with_momentum.rule.momentum = 0.9;
  CHECK_THROWS_WITH_AS(run(item, with_momentum), "sgd_update: parameter 'w': its state is undefined",
                       ValueError);
  CHECK_THROWS_AS(run(item, group, Tensor::scalar(1.0f)), DTypeError);
  CHECK(item.step.item_i64() == 1);
}

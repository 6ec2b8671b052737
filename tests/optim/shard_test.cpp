#include <doctest/doctest.h>

#include <json/value.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <thread>

#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "optim/gradient_squares.h"
#include "optim/parameter_groups.h"
#include "optim/rules/adam.h"
#include "optim/rules/sgd.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor range_of(const Tensor& full, int64_t first, int64_t length) {
  return full.flatten().narrow(0, first, length);
}

/// Elements [first, first + length) of `full`, as in the list of the rank that holds them: a view.
NamedParameter shard_of(const NamedParameter& full, int64_t first, int64_t length) {
  return {full.name,
          Variable::parameter(range_of(full.variable.value(), first, length)),
          {},
          ShardInfo{full.variable.shape(), first}};
}

/// One value per rank, exchanged between threads.
struct SharedValues {
  explicit SharedValues(int size) : values(static_cast<size_t>(size)), barrier(size) {}
  std::vector<double> values;
  std::barrier<> barrier;
};

/// Reduces over ranks that are threads: each call returns when all ranks have made it.
class ThreadReducer : public ParameterReducer {
 public:
  ThreadReducer(SharedValues& shared, int rank) : shared_(shared), rank_(rank) {}
  double power_sum(const ParameterList& list, double p) override {
    double local = 0.0;
    for (const NamedParameter& parameter : list) {
      const Variable gradient = parameter.variable.grad();
      for (int64_t i = 0; gradient.defined() && i < gradient.numel(); ++i) {
        const double term = std::pow(std::abs(gradient.value().data<float>()[i]), p == infinity ? 1.0 : p);
        local = p == infinity ? std::max(local, term) : local + term;
      }
    }
    const std::vector<double> all = all_gather(local);
    double sum = 0.0;
    for (const double value : all) sum = p == infinity ? std::max(sum, value) : sum + value;
    return sum;
  }
  double largest(double value) override {
    const std::vector<double> all = all_gather(value);
    return *std::max_element(all.begin(), all.end());
  }
  int rank() const override { return rank_; }

 private:
  std::vector<double> all_gather(double value) {
    shared_.values[static_cast<size_t>(rank_)] = value;
    shared_.barrier.arrive_and_wait();
    std::vector<double> all = shared_.values;
    shared_.barrier.arrive_and_wait();
    return all;
  }
  SharedValues& shared_;
  int rank_;
};

/// Runs `body` on ranks that are threads; rank r has parameters "a" and "b" with the gradients given.
using Gradients = std::vector<std::vector<float>>;
template <class Body>
void on_ranks(const std::vector<Gradients>& gradients, const Body& body) {
  SharedValues shared(static_cast<int>(gradients.size()));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < gradients.size(); ++rank)
    threads.emplace_back([&, rank] {
      ParameterList list;
      for (const std::vector<float>& values : gradients[rank]) {
        const Tensor gradient = Tensor::empty({std::ssize(values)}, f32);
        std::copy(values.begin(), values.end(), gradient.data<float>());
        const Variable p = Variable::parameter(Tensor::zeros(gradient.shape(), f32));
        p.set_grad(Variable(gradient));
        list.push_back({list.empty() ? "a" : "b", p, {}, ShardInfo{{100}, 0}});
      }
      list.set_reducer(std::make_shared<ThreadReducer>(shared, static_cast<int>(rank)));
      body(list, static_cast<int>(rank));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("shards: every optimizer gives a shard the bits of the full parameter") {
  const Goldens goldens("optimizers.safetensors");
  // The bounds of the shards of `a` (7) and `b` (3, 4) on ranks 0 to 3. Rank 1 has none of `b`, rank 3 none
  // of `a`.
  const int64_t bounds_a[] = {0, 2, 3, 7, 7}, bounds_b[] = {0, 5, 5, 11, 12};
  for (const std::string& name : goldens.cases()) {
    CAPTURE(name);
    const GoldenProblem full(goldens, f32), sharded(goldens, f32);
    const auto expected = golden_optimizer(goldens.options(name), full);
    std::vector<GoldenProblem> ranks;
    std::vector<std::unique_ptr<optim::Optimizer>> optimizers;
    for (int r = 0; r < 4; ++r) {
      GoldenProblem& problem = ranks.emplace_back(sharded);
      problem.list_a =
          ParameterList({shard_of(sharded.list_a[0], bounds_a[r], bounds_a[r + 1] - bounds_a[r])});
      problem.list_b =
          ParameterList({shard_of(sharded.list_b[0], bounds_b[r], bounds_b[r + 1] - bounds_b[r])});
      optimizers.push_back(golden_optimizer(goldens.options(name), problem));
    }
    for (int64_t t = 0; t < 10; ++t) {
      full.set_gradients(t);
      sharded.set_gradients(t);
      expected->step();
      for (size_t r = 0; r < 4; ++r) {
        for (const ParameterList* list : {&ranks[r].list_a, &ranks[r].list_b}) {
          const NamedParameter& shard = (*list)[0];
          const Variable& source = list == &ranks[r].list_a ? sharded.a : sharded.b;
          shard.variable.set_grad(
              Variable(range_of(source.grad().value(), shard.shard->first, shard.variable.numel())));
        }
        optimizers[r]->step();
      }
    }
    CHECK(same_bits(full.a.value(), sharded.a.value()));
    CHECK(same_bits(full.b.value(), sharded.b.value()));
    for (const NamedTensor& entry : expected->state().tensors)
      for (size_t r = 0; r < 4; ++r)
        for (const NamedTensor& shard : optimizers[r]->state().tensors) {
          if (shard.name != entry.name) continue;
          CAPTURE(shard.name);
          const bool is_step = shard.name.starts_with("step/");
          const int64_t* const bounds = shard.name.ends_with("/a") ? bounds_a : bounds_b;
          if (!is_step) CHECK(shard.tensor.shape() == Shape{bounds[r + 1] - bounds[r]});
          CHECK(same_bits(shard.tensor, is_step
                                            ? entry.tensor
                                            : range_of(entry.tensor, bounds[r], bounds[r + 1] - bounds[r])));
        }
  }
}

TEST_CASE("shards: a rank may hold empty shards only, and their state is saved and loaded") {
  const NamedParameter full{"w", Variable::parameter(Tensor::zeros({3, 2}, f32))};
  ParameterList list({shard_of(full, 6, 0)});
  CHECK_THROWS_WITH_AS(optim::grad_norm(list), doctest::Contains("no reducer"), ConfigError);
  SharedValues shared(1);
  list.set_reducer(std::make_shared<ThreadReducer>(shared, 0));
  optim::AdamW adam(list, {.lr = 0.1, .amsgrad = true});
  adam.step();  // no gradient: skipped
  CHECK(adam.state().tensors.back().tensor.item_i64() == 0);
  list[0].variable.set_grad(Variable(Tensor::zeros({0}, f32)));
  adam.step();
  optim::OptimizerState state = adam.state();
  CHECK(state.tensors.front().tensor.shape() == Shape{0});
  CHECK(state.tensors.back().tensor.item_i64() == 1);
  optim::AdamW other(list, {.amsgrad = true});
  other.load_state(state);
  CHECK(other.state().tensors.back().tensor.item_i64() == 1);
  CHECK(optim::clip_grad_norm(list, 1.0).item() == 0.0);
}

TEST_CASE("shards: decay is decided by the shape of the full parameter") {
  const NamedParameter matrix{"fc.weight", Variable::parameter(Tensor::zeros({3, 2}, f32))};
  const NamedParameter vector{"fc.bias", Variable::parameter(Tensor::zeros({3}, f32))};
  const optim::DecaySplit split =
      optim::split_by_decay(ParameterList({shard_of(matrix, 1, 4), shard_of(vector, 0, 2)}));
  REQUIRE(split.decay.size() == 1);
  CHECK(split.decay[0].name == "fc.weight");
  REQUIRE(split.no_decay.size() == 1);
  CHECK(split.no_decay[0].name == "fc.bias");
}

TEST_CASE("shards: norms and clipping are those of all ranks' gradients, for every power") {
  const std::vector<Gradients> gradients{{{3, 0}, {1}}, {{-4}, {}}, {{}, {-2, 2}}};
  on_ranks(gradients, [](const ParameterList& list, int rank) {
    CHECK(optim::grad_norm(list, {.p = 1.0}).item() == 12.0);
    CHECK(optim::grad_norm(list).item() == doctest::Approx(std::sqrt(34.0)));
    CHECK(optim::grad_norm(list, {.p = infinity}).item() == 4.0);
    CHECK(optim::clip_grad_norm(list, 2.0, {.p = infinity}).item() == 4.0);
    if (rank == 1) CHECK(list[0].variable.grad().value().data<float>()[0] == doctest::Approx(-2.0));
    // A list selected by `where` keeps the reducer.
    const ParameterList b = list.where([](const NamedParameter& p) { return p.name == "b"; });
    CHECK(optim::grad_norm(b, {.p = 1.0}).item() == doctest::Approx(2.5));
  });
}

TEST_CASE("shards: a norm that is not finite names parameter and rank, on every rank") {
  const std::vector<Gradients> gradients{{{3}, {NAN}}, {{0}, {0}}, {{0, INFINITY}, {NAN}}, {{NAN}, {0}}};
  on_ranks(gradients, [](const ParameterList& list, int) {
    for (const double p : {1.0, 2.0, infinity})
      CHECK_THROWS_WITH_AS(
          optim::grad_norm(list, {.p = p, .error_if_nonfinite = true}),
          doctest::Contains("the first gradient that is not finite is that of 'a' on rank 2"),
          NonFiniteError);
  });
}

TEST_CASE("shards: ranks skip together and name the same parameter and rank; then all step again") {
  const std::vector<Gradients> gradients{{{16}, {16}}, {{16}, {16, NAN}}, {{16}, {}}, {{16}, {NAN}}};
  on_ranks(gradients, [](const ParameterList& list, int rank) {
    optim::GradScaler scaler({.initial_scale_power = 4, .hysteresis = 1, .min_loss_scale = 8.0});
    optim::SGD sgd(list, {.lr = 1.0});
    CHECK_FALSE(scaler.step(sgd));
    CHECK(to_string(scaler.first_nonfinite().value_or(optim::NonFiniteGradient{})) ==
          "'b' on rank 1 in step 0");
    CHECK(scaler.scale().item() == 8.0);
    CHECK(list[0].variable.value().item() == 0.0);
    // At the minimum scale the error is the same on every rank.
    CHECK_THROWS_WITH_AS(
        scaler.step(sgd),
        doctest::Contains("'b' on rank 1 in step 1 is not finite and the loss scale is at its minimum"),
        NonFiniteError);
    for (const NamedParameter& parameter : list)
      parameter.variable.set_grad(Variable(Tensor::zeros(parameter.variable.shape(), f32)));
    if (rank == 0) list[0].variable.grad().value().data<float>()[0] = 24.0f;
    CHECK(scaler.step(sgd));
    CHECK_FALSE(scaler.first_nonfinite());
    CHECK(list[0].variable.value().item() == (rank == 0 ? -3.0 : 0.0));
  });
}

namespace {

/// Notes what it is asked for.
class AskedReducer final : public ParameterReducer {
 public:
  double power_sum(const ParameterList&, double) override { return 0; }
  void take_squares(const ParameterList& list, int64_t backwards) override {
    asked.emplace_back(list.size(), backwards);
  }
  double largest(double value) override { return value; }

  std::vector<std::pair<size_t, int64_t>> asked;
};

}  // namespace

TEST_CASE("shards: GradientSquares asks the list's reducer, where a model is larger than the caches") {
  const auto asked_for = [](int64_t elements) {
    ParameterList list({{"w", Variable::parameter(Tensor::zeros({elements}, f32))}});
    const auto reducer = std::make_shared<AskedReducer>();
    list.set_reducer(reducer);
    std::optional<optim::GradientSquares> squares(std::in_place, list, 3);
    sum(list[0].variable).backward();
    CHECK_FALSE(list[0].grad().value().noted_squares().has_value());  // the reducer's task
    squares.reset();
    return reducer->asked;
  };
  CHECK(asked_for((1 << 20) + 1) == std::vector<std::pair<size_t, int64_t>>{{1, 3}, {1, 0}});
  CHECK(asked_for(2).empty());
}

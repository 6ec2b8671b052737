#include <doctest/doctest.h>

#include <json/value.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <thread>

#include "autograd/functions/reduction.h"
#include "autograd/functions/unary.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "optim/gradient_squares.h"
#include "optim/parameter_groups.h"
#include "optim/sgd.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor part_of(const Tensor& whole, int64_t first, int64_t length) {
  return whole.flatten().narrow(0, first, length);
}

/// Elements [first, first + length) of `whole`, as the rank that holds them lists them: a view.
NamedParameter shard_of(const NamedParameter& whole, int64_t first, int64_t length) {
  return {whole.name,
          Variable::parameter(part_of(whole.variable.value(), first, length)),
          {},
          ShardOf{whole.variable.shape(), first}};
}

/// What ranks tell each other, over threads: each call returns when all `size` ranks have made it.
struct Table {
  explicit Table(int size) : said(static_cast<size_t>(size)), barrier(size) {}
  std::vector<double> said;
  std::barrier<> barrier;
};

class Seat : public ParameterReducer {
 public:
  Seat(Table& table, int rank) : table_(table), rank_(rank) {}
  double power_sum(const ParameterList& list, double p) override {
    double mine = 0.0;
    for (const NamedParameter& parameter : list) {
      const Variable gradient = parameter.variable.grad();
      for (int64_t i = 0; gradient.defined() && i < gradient.numel(); ++i) {
        const double term = std::pow(std::abs(gradient.value().data<float>()[i]), p == infinity ? 1.0 : p);
        mine = p == infinity ? std::max(mine, term) : mine + term;
      }
    }
    const std::vector<double> all = meet(mine);
    double sum = 0.0;
    for (const double part : all) sum = p == infinity ? std::max(sum, part) : sum + part;
    return sum;
  }
  double largest(double value) override {
    const std::vector<double> all = meet(value);
    return *std::max_element(all.begin(), all.end());
  }
  int rank() const override { return rank_; }

 private:
  std::vector<double> meet(double value) {
    table_.said[static_cast<size_t>(rank_)] = value;
    table_.barrier.arrive_and_wait();
    std::vector<double> all = table_.said;
    table_.barrier.arrive_and_wait();
    return all;
  }
  Table& table_;
  int rank_;
};

/// A run of `size` ranks as threads; rank r has a parameter "a" and one "b" with the gradients given.
using Gradients = std::vector<std::vector<float>>;
template <class Body>
void on_ranks(const std::vector<Gradients>& gradients, const Body& body) {
  Table table(static_cast<int>(gradients.size()));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < gradients.size(); ++rank)
    threads.emplace_back([&, rank] {
      ParameterList list;
      for (const std::vector<float>& numbers : gradients[rank]) {
        const Tensor gradient = Tensor::empty({std::ssize(numbers)}, f32);
        std::copy(numbers.begin(), numbers.end(), gradient.data<float>());
        const Variable p = Variable::parameter(Tensor::zeros(gradient.shape(), f32));
        p.set_grad(Variable(gradient));
        list.push_back({list.empty() ? "a" : "b", p, {}, ShardOf{{100}, 0}});
      }
      list.set_reducer(std::make_shared<Seat>(table, static_cast<int>(rank)));
      body(list, static_cast<int>(rank));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("shards: every optimizer gives a part of a parameter the bits of the whole") {
  const Goldens goldens("optimizers.safetensors");
  // Of `a` (7) and `b` (3, 4): where ranks 0 to 3 begin and end. Rank 1 holds nothing of `b`, rank 3 of `a`.
  const int64_t cuts_a[] = {0, 2, 3, 7, 7}, cuts_b[] = {0, 5, 5, 11, 12};
  for (const std::string& name : goldens.cases()) {
    CAPTURE(name);
    const GoldenProblem whole(goldens, f32), sharded(goldens, f32);
    const auto expected = golden_optimizer(goldens.options(name), whole);
    std::vector<GoldenProblem> ranks;
    std::vector<std::unique_ptr<optim::Optimizer>> optimizers;
    for (int r = 0; r < 4; ++r) {
      GoldenProblem& mine = ranks.emplace_back(sharded);
      mine.list_a = ParameterList({shard_of(sharded.list_a[0], cuts_a[r], cuts_a[r + 1] - cuts_a[r])});
      mine.list_b = ParameterList({shard_of(sharded.list_b[0], cuts_b[r], cuts_b[r + 1] - cuts_b[r])});
      optimizers.push_back(golden_optimizer(goldens.options(name), mine));
    }
    for (int64_t t = 0; t < 10; ++t) {
      whole.set_gradients(t);
      sharded.set_gradients(t);
      expected->step();
      for (size_t r = 0; r < 4; ++r) {
        for (const ParameterList* list : {&ranks[r].list_a, &ranks[r].list_b}) {
          const NamedParameter& mine = (*list)[0];
          const Variable& all = list == &ranks[r].list_a ? sharded.a : sharded.b;
          mine.variable.set_grad(
              Variable(part_of(all.grad().value(), mine.shard->first, mine.variable.numel())));
        }
        optimizers[r]->step();
      }
    }
    CHECK(same_bits(whole.a.value(), sharded.a.value()));
    CHECK(same_bits(whole.b.value(), sharded.b.value()));
    for (const NamedTensor& all : expected->state().tensors)
      for (size_t r = 0; r < 4; ++r)
        for (const NamedTensor& mine : optimizers[r]->state().tensors) {
          if (mine.name != all.name) continue;
          CAPTURE(mine.name);
          const bool is_step = mine.name.starts_with("step/");
          const int64_t* const cuts = mine.name.ends_with("/a") ? cuts_a : cuts_b;
          if (!is_step) CHECK(mine.tensor.shape() == Shape{cuts[r + 1] - cuts[r]});
          CHECK(same_bits(mine.tensor,
                          is_step ? all.tensor : part_of(all.tensor, cuts[r], cuts[r + 1] - cuts[r])));
        }
  }
}

TEST_CASE("shards: a rank may hold nothing of any parameter, and state of nothing is saved and loaded") {
  const NamedParameter whole{"w", Variable::parameter(Tensor::zeros({3, 2}, f32))};
  ParameterList list({shard_of(whole, 6, 0)});
  CHECK_THROWS_WITH_AS(optim::grad_norm(list), doctest::Contains("no reducer"), ConfigError);
  Table alone(1);
  list.set_reducer(std::make_shared<Seat>(alone, 0));
  optim::AdamW adam(list, {.lr = 0.1, .amsgrad = true});
  adam.step();  // no gradient: passed over
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

TEST_CASE("shards: decay goes by the shape of the whole parameter") {
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
    // A part of the list keeps the reducer.
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

TEST_CASE("shards: ranks skip together and know whose gradient it was; then all step again") {
  const std::vector<Gradients> gradients{{{16}, {16}}, {{16}, {16, NAN}}, {{16}, {}}, {{16}, {NAN}}};
  on_ranks(gradients, [](const ParameterList& list, int rank) {
    optim::GradScaler scaler({.initial_scale_power = 4, .hysteresis = 1, .min_loss_scale = 8.0});
    optim::SGD sgd(list, {.lr = 1.0});
    CHECK_FALSE(scaler.step(sgd));
    CHECK(to_string(scaler.first_nonfinite().value_or(optim::GradientFault{})) == "'b' on rank 1 in step 0");
    CHECK(scaler.scale().item() == 8.0);
    CHECK(list[0].variable.value().item() == 0.0);
    // At the smallest scale every rank ends with the same words.
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

TEST_CASE("shards: squares summed in backward are not the norm's of a list with a reducer") {
  Table table(1);
  ParameterList list({{"w", Variable::parameter(Tensor::from({3.0f, 4.0f}))}});
  list.set_reducer(std::make_shared<Seat>(table, 0));
  {
    const optim::GradientSquares squares(list);
    sum(square(list[0].variable)).backward();
  }
  CHECK_FALSE(optim::gradient_squares(list[0].variable).has_value());
  CHECK(optim::grad_norm(list).item() == 10.0);
}

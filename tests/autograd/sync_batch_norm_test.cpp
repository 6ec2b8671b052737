// First and second derivatives of a batch norm over ranks, with threads as ranks: those of batch_norm on the
// whole batch.
#include <doctest/doctest.h>

#include <barrier>
#include <cmath>
#include <thread>
#include <vector>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/images/batch_norm.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/gradients.h"
#include "tensor/functions.h"

using namespace tessera;

namespace {

constexpr int ranks = 2;

/// What the threads exchange.
struct Meeting {
  std::barrier<> barrier{ranks};
  Tensor slots[ranks];
};

class ThreadStatistics final : public RankStatistics {
 public:
  ThreadStatistics(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int ranks() const override { return ::ranks; }
  Tensor all_gather(const Tensor& values) override {
    meeting_.slots[rank_] = values;
    meeting_.barrier.arrive_and_wait();
    Tensor all = stack({meeting_.slots[0], meeting_.slots[1]});
    meeting_.barrier.arrive_and_wait();  // no slot is written while another rank reads it
    return all;
  }

 private:
  Meeting& meeting_;
  int rank_;
};

Tensor waves(const Shape& shape, double phase) {
  Tensor x = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = std::sin(2.3 * double(i + 1) + phase) + 0.1 * double(i % 5);
  return x;
}

/// The gradients of sum(factors * y): of x, weight and bias, with a graph; then those of the sum of the
/// squares of the first, x's and weight's.
template <class Norm>
std::vector<Tensor> derivatives(const Tensor& x_values, const Tensor& weight_values, const Tensor& factors,
                                const Norm& norm) {
  const Variable x = Variable::leaf(x_values), weight = Variable::leaf(weight_values),
                 bias = Variable::leaf(waves({3}, 0.7));
  const Variable y = norm(x, weight, bias);
  const std::vector<Variable> first =
      grad(sum(square(y) * Variable(factors)), {x, weight, bias}, {.create_graph = true});
  const std::vector<Variable> second = grad(sum(square(first[0])), {x, weight});
  return {first[0].value(), first[1].value(), first[2].value(), second[0].value(), second[1].value()};
}

}  // namespace

TEST_CASE("synchronised batch norm: first and second derivatives are those of the whole batch") {
  // The ranks have different numbers of samples.
  const Tensor x = waves({5, 3, 4}, 0), factors = waves({5, 3, 4}, 1.1), weight = waves({3}, 0.2);
  const int64_t first_of[] = {0, 2}, count[] = {2, 3};
  const std::vector<Tensor> whole =
      derivatives(x, weight, factors, [](const Variable& in, const Variable& w, const Variable& b) {
        return batch_norm(in, {}, {}, w, b, true);
      });
  Meeting meeting;
  std::vector<Tensor> parts[ranks];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto statistics = std::make_shared<ThreadStatistics>(meeting, rank);
      parts[rank] = derivatives(x.narrow(0, first_of[rank], count[rank]).clone(), weight.clone(),
                                factors.narrow(0, first_of[rank], count[rank]).clone(),
                                [&](const Variable& in, const Variable& w, const Variable& b) {
                                  return sync_batch_norm(in, {}, {}, w, b, statistics);
                                });
    });
  for (std::thread& thread : threads) thread.join();
  for (const size_t of_x : {0, 3}) {
    INFO(of_x);
    CHECK(allclose(cat({parts[0][of_x], parts[1][of_x]}), whole[of_x], 1e-9, 1e-11));
  }
  for (const size_t of_parameter : {1, 2, 4}) {
    INFO(of_parameter);
    CHECK(allclose(parts[0][of_parameter] + parts[1][of_parameter], whole[of_parameter], 1e-9, 1e-11));
  }
}

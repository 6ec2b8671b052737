#include <doctest/doctest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "tensor/functions.h"
#include "tensor/random/random_context.h"
#include "tensor/threads/parallel.h"

using namespace tessera;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && all(a == b).item_i64() != 0;
}

}  // namespace

TEST_CASE("generator: the same values after the same seed, others in the next call") {
  manual_seed(7);
  const Tensor a = randn({3, 4}), b = randn({3, 4});
  CHECK(all(a != b).item_i64() != 0);
  manual_seed(7);
  CHECK(same(randn({3, 4}), a));
  CHECK(same(randn({3, 4}), b));
  manual_seed(8);
  CHECK(!same(randn({3, 4}), a));
  // A step of a data loader leaves the generator as it is.
  manual_seed(7);
  CHECK(same(randn({3, 4}), a));
  begin_random_step(99, 3, {});
  CHECK(same(randn({3, 4}), b));
}

TEST_CASE("generator: one per thread, for any number of threads of the kernels") {
  manual_seed(7);
  const Tensor a = randn({50000});
  Tensor in_thread;
  std::thread([&] {
    manual_seed(7);
    in_thread = randn({50000});
  }).join();
  CHECK(same(in_thread, a));
  const Tensor order = randperm(1000);
  const int before = num_threads();
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    manual_seed(7);
    CHECK(same(randn({50000}), a));
    CHECK(same(randperm(1000), order));
  }
  set_num_threads(before);
}

TEST_CASE("generator: moments and ranges") {
  // Of n = 1e5 draws a mean is within 5 deviations sigma / sqrt(n), a variance within 5 of its deviations.
  constexpr int64_t n = 100000;
  const double root = std::sqrt(double(n));
  manual_seed(1);
  const Tensor normal = randn({n}, f64);
  CHECK(std::abs(normal.mean().item()) < 5 / root);
  CHECK(std::abs(normal.var().item() - 1) < 5 * std::sqrt(2.0) / root);
  const Tensor uniform = rand({n});
  CHECK(uniform.min().item() >= 0);
  CHECK(uniform.max().item() < 1);
  CHECK(std::abs(uniform.to(f64).mean().item() - 0.5) < 5 * std::sqrt(1.0 / 12) / root);
  CHECK(std::abs(uniform.to(f64).var().item() - 1.0 / 12) < 5 * std::sqrt(1.0 / 180) / root);
  const Tensor dice = randint(1, 7, {n});
  CHECK(dice.dtype() == i64);
  for (int face = 1; face <= 6; ++face)
    CHECK(std::abs((dice == face).sum().item() / n - 1.0 / 6) < 5 * std::sqrt(5.0 / 36) / root);
  CHECK(dice.min().item_i64() == 1);
  CHECK(dice.max().item_i64() == 6);
  CHECK(randint(3, {100}, i32).max().item_i64() <= 2);
  CHECK(randint(-5, -4, {3}).eq(-5).all().item_i64() == 1);
  const int64_t largest = int64_t{1} << 53;
  CHECK(randint(0, largest, {1000}).lt(largest).all().item_i64() == 1);
}

TEST_CASE("generator: permutations") {
  manual_seed(3);
  const Tensor order = randperm(1000);
  CHECK(same(order.sort(0).values, arange(1000)));
  CHECK(!same(order, arange(1000)));
  CHECK(randperm(0).shape() == Shape{0});
  // Each of the 6 orders of 3 in a sixth of 6000 draws, to 5 deviations.
  int counts[27] = {};
  for (int i = 0; i < 6000; ++i) {
    const Tensor p = randperm(3);
    const int64_t* v = p.data<int64_t>();
    ++counts[9 * v[0] + 3 * v[1] + v[2]];
  }
  for (const int code : {5, 7, 11, 15, 19, 21})
    CHECK(std::abs(counts[code] - 1000) < 5 * std::sqrt(6000 * 5.0 / 36));
}

TEST_CASE("generator: bernoulli and multinomial") {
  constexpr int64_t n = 100000;
  manual_seed(4);
  const Tensor p = full({n}, 0.3, f32);
  const Tensor drawn = bernoulli(p);
  CHECK(drawn.dtype() == f32);
  CHECK(std::abs(drawn.to(f64).mean().item() - 0.3) < 5 * std::sqrt(0.21 / n));
  CHECK(bernoulli(ones({100})).sum().item() == 100);
  CHECK(bernoulli(zeros({100})).sum().item() == 0);
  CHECK(std::abs(empty({n}, f64).bernoulli_(0.3).mean().item() - 0.3) < 5 * std::sqrt(0.21 / n));
  CHECK_THROWS_WITH_AS(bernoulli(full({2}, 1.5)), doctest::Contains("probabilities in [0, 1]"), ValueError);
  const Tensor weights = Tensor::from({1.0, 0.0, 3.0});
  CHECK(same(multinomial(weights, 2).sort().values, Tensor::from<int64_t>({0, 2})));
  const Tensor indices = multinomial(weights, 20000, true);
  CHECK(std::abs((indices == 2).sum().item() / 20000 - 0.75) < 5 * std::sqrt(0.1875 / 20000));
}

constexpr int64_t n_of_mean = 10000;

TEST_CASE("generator: like another tensor, in place, and what it refuses") {
  manual_seed(5);
  const Tensor x = zeros({2, 3}, f64);
  CHECK(rand_like(x).dtype() == f64);
  CHECK(randn_like(x, f32).shape() == Shape{2, 3});
  const Tensor y = zeros({n_of_mean}).normal_(10, 2);
  CHECK(std::abs(y.mean().item() - 10) < 5 * 2 / std::sqrt(double(n_of_mean)));
  CHECK(zeros({100}).uniform_(2, 3).ge(2).all().item_i64() == 1);
  CHECK(randn({2}, f32, meta()).is_meta());
  CHECK_THROWS_AS(randn({2}, i64), DTypeError);
  CHECK_THROWS_WITH_AS(randint(3, 3, {2}), doctest::Contains("low < high"), ValueError);
  CHECK_THROWS_AS(randperm(-1), ValueError);
}

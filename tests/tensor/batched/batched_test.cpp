#include "tensor/batched/batched.h"

#include <doctest/doctest.h>

#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"

using namespace tessera;

namespace {

using Values = std::vector<double>;

Values values(const Tensor& x) {
  const Tensor y = x.contiguous();
  return {y.data<double>(), y.data<double>() + y.numel()};
}

Device batched_by(int32_t samples) {
  return {.kind = DeviceKind::batched, .samples = static_cast<uint16_t>(samples)};
}

}  // namespace

TEST_CASE("batched: the samples of a tensor are windows on its memory, along any dimension") {
  const Tensor x = ops::arange(0, 24, 1, f64).view({2, 3, 4});
  for (const int64_t dim : {0, 1, 2, -1}) {
    CAPTURE(dim);
    const Tensor b = batched::from_dim(x, dim);
    CHECK(b.device() == batched_by(static_cast<int32_t>(x.size(dim))));
    CHECK(b.shape() == x.select(dim, 0).shape());
    for (int64_t i = 0; i < x.size(dim); ++i) {
      const Tensor sample = batched::one_sample(b, i);
      CHECK(sample.device() == cpu());
      CHECK(sample.raw_data() == x.select(dim, i).raw_data());
      CHECK(values(sample) == values(x.select(dim, i)));
      CHECK(values(batched::one_sample(b.transpose(0, 1), i)) == values(x.select(dim, i).transpose(0, 1)));
      CHECK(values(batched::one_sample(b.narrow(0, 1, 1), i)) == values(x.select(dim, i).narrow(0, 1, 1)));
    }
    CHECK(values(batched::all_samples(b, b.device().samples).select(0, 1)) == values(x.select(dim, 1)));
    CHECK_FALSE(batched::is_shared(b));
  }
  CHECK_THROWS_AS(batched::from_dim(x, 3), IndexError);
  const Tensor shared = batched::shared(x, 5);
  CHECK(batched::is_shared(shared));
  CHECK(batched::is_shared(x));
  CHECK(batched::one_sample(shared, 4).raw_data() == x.raw_data());
  CHECK(batched::all_samples(shared, 5).shape() == Shape{5, 2, 3, 4});
  CHECK(batched::all_samples(x, 5).strides()[0] == 0);
}

TEST_CASE("batched: operations compute for all samples, and share operands on the CPU") {
  const Tensor x = ops::arange(0, 6, 1, f64).view({3, 2}), w = Tensor::from({10.0, 20.0});
  const Tensor b = batched::from_dim(x, 0);
  const Tensor y = ops::add(w, ops::mul(b, 2.0));
  CHECK(y.device() == batched_by(3));
  CHECK(values(batched::all_samples(y, 3)) == Values{10, 22, 14, 26, 18, 30});
  CHECK(values(batched::all_samples(ops::sum(y), 3)) == Values{32, 40, 48});
  CHECK(values(batched::all_samples(ops::matmul(y, w), 3)) == Values{540, 660, 780});
  CHECK(values(batched::all_samples(Tensor::zeros_like(y), 3)) == Values(6, 0));
  ops::add_(b, 1.0);
  CHECK(values(x) == Values{1, 2, 3, 4, 5, 6});
  CHECK(b.version() == x.version());
}

TEST_CASE("batched: memory is counted for all samples") {
  const int64_t before = current_account()->total().current;
  const Tensor x = Tensor::empty({3}, f64, batched_by(4));
  CHECK(x.nbytes() == 24);
  CHECK(x.storage()->nbytes() == 24);
  CHECK(x.storage()->owns_bytes());
  CHECK(current_account()->total().current - before == 96);
  const Tensor y = batched::shared(Tensor::zeros({3}, f64), 4);
  CHECK_FALSE(y.storage()->owns_bytes());
}

TEST_CASE("batched: what needs one value for all samples has no rule") {
  const Tensor b = batched::from_dim(Tensor::from({1.0, 2.0}, {2, 1}), 0);
  CHECK_THROWS_AS(b.item(), NoBatchingRule);
  CHECK_THROWS_AS(b.data<double>(), NoBatchingRule);
  CHECK_THROWS_AS(b.raw_data(), NoBatchingRule);
  CHECK_THROWS_AS(b.to(cpu()), NoBatchingRule);
  const Tensor w = Tensor::zeros({1}, f64);
  CHECK_THROWS_AS(ops::add_(w, b), NoBatchingRule);
  CHECK_THROWS_AS(ops::add_(batched::shared(w, 2), b), NoBatchingRule);
  const Tensor others = batched::from_dim(Tensor::zeros({3, 1}, f64), 0);
  CHECK_THROWS_AS(ops::add(b, others), NoBatchingRule);
  try {
    (void)b.item();
  } catch (const NoBatchingRule& error) {
    CHECK(error.operation() == "item");
    CHECK(std::string(error.what()).find("always_loop") != std::string::npos);
  }
  CHECK(values(w) == Values{0});
}

TEST_CASE("batched: a scope says what random numbers its samples draw") {
  CHECK(batched::current() == nullptr);
  CHECK(batched::current_samples() == 0);
  {
    const batched::Scope outer(4, batched::Randomness::different);
    CHECK(batched::current_samples() == 4);
    CHECK(randn({2}).device() == batched_by(4));
    CHECK(batched::random_device(meta()) == meta());
    {
      const batched::Scope inner(0, batched::Randomness::error);
      CHECK_THROWS_AS(randn({2}), ValueError);
    }
    const Tensor x = Tensor::zeros({2});
    CHECK_THROWS_AS(normal_(x), NoBatchingRule);
  }
  const batched::Scope scope(4, batched::Randomness::same);
  CHECK(randn({2}).device() == cpu());
}

// Sums by flat indices and filling by masks: the short ways of index_put_ give what a loop gives, for any
// number of threads.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "tensor/functions.h"
#include "tensor/index.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/creation/literal.h"
#include "tensor/threads/parallel.h"

using namespace tessera;

namespace {

struct Threads {
  int before = num_threads();
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(before); }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.numel() == b.numel() &&
         std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.nbytes())) == 0;
}

}  // namespace

TEST_CASE("index_put_: sums of many indices are those of a loop, in order, for any number of threads") {
  for (const int64_t limit : {1, 5, 1000, 70000, 300000, 20000000})
    for (const int64_t width : {1, 3, 8, 9}) {
      if (limit * width > 20000000) continue;
      const int64_t n = limit > 1000 ? 40000 : 2000;
      const Tensor index = randint(0, limit, {n}), values = randn({n, width});
      const Tensor x = full({limit, width}, -0.0);
      std::vector<float> sums(static_cast<size_t>(limit * width));
      std::vector<bool> present(static_cast<size_t>(limit));
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < width; ++j) {
          const int64_t id = index.data<int64_t>()[i];
          present[id] = true;
          sums[id * width + j] += values.data<float>()[i * width + j];
        }
      Tensor expected = x.clone();
      for (int64_t id = 0; id < limit; ++id)
        for (int64_t j = 0; j < width && present[id]; ++j)
          expected.data<float>()[id * width + j] += sums[id * width + j];
      for (const int threads : {1, 2, 5}) {
        const Threads scope(threads);
        CAPTURE(limit);
        CAPTURE(width);
        const Tensor y = x.clone();
        y.index_put_({index}, values, true);
        CHECK(same_bits(y, expected));
        CHECK(same_bits(index_add(x, 0, index, values), expected));
      }
    }
}

TEST_CASE("index_put_: one value for a mask") {
  const Tensor mask = tensor({{true, false, true}, {false, true, false}});
  const Tensor x = arange(24).view({2, 3, 4});
  Tensor y = x.clone();
  y.index_put_({mask}, -1);
  CHECK(array_equal(y, where(mask.unsqueeze(2), Scalar(-1), x)));
  y = x.clone();
  y.index_put_({Slice(), tensor({true, false, true})}, -1);
  CHECK(array_equal(y, where(tensor({true, false, true}).unsqueeze(1), Scalar(-1), x)));
  y = x.clone();
  y.index_put_({0, Ellipsis, tensor({true, false, false, true})}, tensor(-1));
  CHECK(array_equal(y[0], where(tensor({true, false, false, true}), Scalar(-1), x[0])));
  CHECK(array_equal(y[1], x[1]));
  y.index_put_({tensor(true)}, 7);
  CHECK(array_equal(y, full({2, 3, 4}, 7)));
  y.index_put_({tensor(false)}, 8);
  CHECK(array_equal(y, full({2, 3, 4}, 7)));
  Tensor turned = x.clone().transpose(0, 2);
  turned.index_put_({turned > 10}, 0);
  CHECK(array_equal(turned.transpose(0, 2), where(x > 10, Scalar(0), x)));
  CHECK_THROWS_AS(y.index_put_({tensor({{true}})}, 1), IndexError);
  CHECK_THROWS_AS(y.index_put_({mask}, 0.5), DTypeError);
  CHECK_THROWS_AS(zeros({3}).expand({2, 3}).index_put_({mask}, 1), ValueError);
}

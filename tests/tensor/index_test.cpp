#include "tensor/index.h"

#include <doctest/doctest.h>

#include <type_traits>

#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/indexing/advanced_indexing.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

// Values are compared with NumPy's in tests/autograd/index_goldens_test.cpp.

using namespace tessera;

namespace {

Tensor counted_rows() {
  return Tensor::from<double>({0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}, {4, 3});
}

bool holds(const Tensor& x, std::initializer_list<double> values) {
  return same_bits(x.reshape({x.numel()}), Tensor::from<double>(values));
}

/// The same call on 1, 2, 3 and 8 threads gives the same bits.
template <class Call>
void check_threads(const Call& call) {
  const int before = num_threads();
  Tensor first;
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    const Tensor result = call();
    if (threads == 1) first = result;
    CHECK(same_bits(result, first));
  }
  set_num_threads(before);
}

}  // namespace

TEST_CASE("index: x[i] is a view, and assignment to it writes through") {
  const Tensor rows = counted_rows();
  const Tensor x = rows.clone();
  CHECK(holds(x[1], {10, 11, 12}));
  CHECK(x[-1][2].item() == 32);
  CHECK(x[1].shares_storage(x));
  x[1][2] = 0.5;
  x[2] = 7;
  x[0] = Tensor::from<double>({1, 2, 3});
  x[3] = x[0];
  CHECK(holds(x, {1, 2, 3, 10, 11, 0.5, 7, 7, 7, 1, 2, 3}));
  x[Slice(0, 2)] = x[Slice(2, 4)];
  CHECK(holds(x[Slice({}, {}, 2)], {7, 7, 7, 7, 7, 7}));
  x[Slice(1)] = Tensor::from<double>({5}, {1, 1, 1});  // broadcasts; leading extents of 1 are dropped
  CHECK(holds(x[3], {5, 5, 5}));
  x.transpose(0, 1)[0] = Tensor::from<float>({1, 2, 3, 4});  // converts
  CHECK(holds(x.select(1, 0), {1, 2, 3, 4}));

  const Tensor labels = Tensor::zeros({3}, i64), flags = Tensor::zeros({2}, boolean);
  labels[1] = 4;
  flags[1] = true;
  CHECK(labels[1].item_i64() == 4);
  CHECK(flags[1].item_i64() == 1);
  CHECK_THROWS_AS(labels[1] = 0.5, DTypeError);
  CHECK_THROWS_AS(labels[1] = rows[0][0], DTypeError);
  CHECK_THROWS_AS(x[0] = Tensor::zeros({2}, f64), ShapeError);
  CHECK_THROWS_AS(x[0] = Tensor(), ValueError);
}

TEST_CASE("index: a named handle is assigned as before, the result of an expression by value") {
  const Tensor rows = counted_rows();
  Tensor a = rows.clone(), row = a[0];
  const Tensor b = row;
  row = a[1];  // another handle
  CHECK(holds(row, {10, 11, 12}));
  CHECK(holds(b, {0, 1, 2}));
  a = {};
  CHECK_FALSE(a.defined());
  static_assert(std::is_nothrow_move_constructible_v<Tensor> && std::is_nothrow_move_assignable_v<Tensor>);
  static_assert(std::is_copy_assignable_v<Tensor>);
  static_assert(!std::is_assignable_v<Tensor&, double>);  // only the result of an expression takes a number
  static_assert(
      std::is_same_v<decltype(rows.index({0})), const Tensor>);  // x.index({...}) = y does not compile
}

TEST_CASE("index: integers, slices, None and Ellipsis give views without an allocation of values") {
  const Tensor x = Tensor::empty({4, 5, 6}, f32);
  const int64_t before = current_account()->total().allocations;
  const Tensor y = x.index({-1, Ellipsis, None, Slice(1, -1, 2)});
  CHECK(y.shape() == Shape{5, 1, 2});
  CHECK(y.strides() == Strides{6, 6, 2});
  CHECK(y.offset() == 3 * 30 + 1);
  CHECK(x[3][2].shape() == Shape{6});
  CHECK(x.index({}).shape() == x.shape());
  CHECK(x.index({Slice(3, 1)}).shape() == Shape{0, 5, 6});
  CHECK(x.index({Slice(None, -3)}).shape() == Shape{1, 5, 6});
  CHECK(current_account()->total().allocations == before);
  CHECK(x.to(meta()).index({0, None, Slice(2)}).shape() == Shape{1, 3, 6});
}

TEST_CASE("index: an integer beside index tensors is applied first, as in PyTorch") {
  const Tensor x = Tensor::empty({2, 3, 4}, f32), ids = Tensor::from<int64_t>({0, 1, 1, 0, 1});
  CHECK(x.index({0, Slice(), ids}).shape() == Shape{3, 5});  // NumPy: (5, 3)
  CHECK(x.index({ids, Slice(), ids}).shape() == Shape{5, 3});
  CHECK(x.index({ids, ids}).shape() == Shape{5, 4});
  CHECK(x.index({Slice(), ids, ids}).shape() == Shape{2, 5});
  CHECK(x.index({ids, Ellipsis, ids, ids}).shape() == Shape{5});
  CHECK(x.index({Tensor::scalar<int64_t>(1), Slice(), ids}).shape() == Shape{3, 5});
  CHECK(x.index({Tensor::scalar(true)}).shape() == Shape{1, 2, 3, 4});
  CHECK(x.index({Tensor::scalar(false)}).shape() == Shape{0, 2, 3, 4});
  CHECK(x.to(meta()).index({Slice(), ids.to(meta()), ids.to(meta())}).shape() == Shape{2, 5});
}

TEST_CASE("index: errors give the position in the list, the value, the size and what was expected") {
  const Tensor x = Tensor::zeros({2, 3}, f32);
  const auto ids = [](std::initializer_list<int64_t> values) { return Tensor::from<int64_t>(values); };
#define THROWS(call, type, message) CHECK_THROWS_WITH_AS(static_cast<void>(call), message, type)
  THROWS(x.index({0, 3}), IndexError,
         "index: index 3 at position 1 is outside [-3, 3), dimension 1 of (2, 3)");
  THROWS(x.index({None, -3}), IndexError,
         "index: index -3 at position 1 is outside [-2, 2), dimension 0 of (2, 3)");
  THROWS(x.index({0, Slice(), 1}), IndexError, "index: the indices take 3 dimensions, (2, 3) has 2");
  THROWS(x.index({Ellipsis, 0, Ellipsis}), IndexError,
         "index: Ellipsis at positions 0 and 2; at most one is possible");
  THROWS(x.index({Slice({}, {}, -1)}), ValueError,
         "index: the slice at position 0 has step -1, expected at least 1; for the reverse order use flip");
  THROWS(
      x[Slice({}, {}, 0)], ValueError,
      "operator[]: the slice at position 0 has step 0, expected at least 1; for the reverse order use flip");
  THROWS(x.index({Slice(), ids({0, 2, -4})}), IndexError,
         "index: value -4 at (2,) of the index tensor at position 1 is outside [-3, 3)");
  THROWS(x.index({Tensor::zeros({2, 4}, boolean)}), IndexError,
         "index: the mask (2, 4) at position 0 has extent 4 in its dimension 1, dimension 1 of (2, 3) has 3");
  THROWS(x.index({x[0]}), DTypeError,
         "index: the index tensor at position 0 holds positions in i64 or i32, or a mask in bool; got (3,) "
         "f32 on "
         "cpu");
  THROWS(
      x.index({Tensor::zeros({}, u8)}), DTypeError,
      "index: the index tensor at position 0 holds positions in i64 or i32, or a mask in bool; got () u8 on "
      "cpu");
  THROWS(x.index({ids({0, 1}), ids({0, 1, 2})}), ShapeError,
         "index: index tensors that broadcast to (2,) before position 1 do not broadcast with the one there, "
         "(3,)");
  THROWS(x.index({Tensor()}), ValueError, "index: the index tensor at position 0 is undefined");
  THROWS(x.index({Tensor::zeros({2, 3}, boolean).to(meta())}), DeviceError, doctest::Contains("meta"));
  THROWS(x.to(meta()).index({Tensor::zeros({2}, boolean).to(meta())}), DeviceError,
         "index: the size of the result depends on the values of the mask (2,) bool on meta; it needs a "
         "device with "
         "values, such as cpu");
  THROWS(x.index({None, None, None, None, None, None, None}), ShapeError, doctest::Contains("8"));
  THROWS(Tensor().index({0}), ValueError, "index: the tensor is undefined");
  THROWS(Tensor()[0], ValueError, "select: the tensor is undefined");
  THROWS(Tensor::scalar(1.0)[0], ShapeError, "select: a 0-dim tensor has no dimension to select from");
  THROWS(Tensor()[Slice()], ValueError, "operator[]: the tensor is undefined");
  THROWS(Tensor().index_put_({0}, 1.0), ValueError, "index_put_: the tensor is undefined");
  THROWS(x.index_put_({0}, Tensor()), ValueError, doctest::Contains("index_put_"));
  THROWS(x.index_put_({Slice(), ids({0, 1})}, Tensor::zeros({3}, f32)), ShapeError,
         "index_put_: the value (3,) does not broadcast to (2, 2), the shape of the indexed elements");
  THROWS(Tensor::zeros({2}, i64).index_put_({0}, x[0][0]), DTypeError,
         "index_put_: a value of f32 does not go into a tensor of i64; convert it, for example with cast");
  THROWS(Tensor::zeros({2}, boolean).index_put_({ids({0})}, Tensor::scalar(true), true), DTypeError,
         doctest::Contains("accumulate"));
  THROWS(x[0].expand({4, 3}).index_put_({ids({0})}, 1.0), ValueError, doctest::Contains("index_put_"));
  THROWS(x.index_put_({ids({0, 5})}, 1.0), IndexError, doctest::Contains("[-2, 2)"));
#undef THROWS
  CHECK(same_bits(x, Tensor::zeros({2, 3}, f32)));  // nothing was written
  CHECK(to_string(Index(3)) == "3");
  CHECK(to_string(Index(Slice(1, -1, 2))) == "1:-1:2");
  CHECK(to_string(Index(Slice())) == ":");
  CHECK(to_string(Index(None)) == "None");
  CHECK(to_string(Index(Ellipsis)) == "...");
  CHECK(to_string(Index(ids({1}))) == "a tensor (1,) i64 on cpu");
}

TEST_CASE("index_put_: values that overlap the target are read as they were") {
  const Tensor rows = counted_rows();
  const Tensor x = rows.clone();
  x.index_put_({Tensor::from<int64_t>({1, 2, 3})}, x[Slice(0, 3)]);
  CHECK(holds(x, {0, 1, 2, 0, 1, 2, 10, 11, 12, 20, 21, 22}));
  const Tensor ids = Tensor::from<int64_t>({2, 0, 1});
  ids.index_put_({ids}, ids);
  CHECK(same_bits(ids, Tensor::from<int64_t>({0, 1, 2})));
  const Tensor on_meta = rows.to(meta());
  on_meta.index_put_({Slice(), 1}, 3.0);
  on_meta.index_put_({ids.to(meta())}, on_meta[0]);
  CHECK_THROWS_AS(on_meta.index_put_({ids.to(meta())}, Tensor::empty({2}, f64, meta())), ShapeError);
}

TEST_CASE("index and index_put_: the same bits for any number of threads") {
  const int64_t n = 40000;
  const Tensor ids = Tensor::empty({n}, i64), table = random_tensor({50, 7, 9}, f32, 1);
  for (int64_t i = 0; i < n; ++i) ids.data<int64_t>()[i] = (i * i + 3 * i) % 50 - (i % 2 ? 50 : 0);
  const Tensor values = random_tensor({n}, f32, 2), mask = ops::cast(random_tensor({300, 200}, f32, 3), i32);
  for (const DType dtype : {f32, bf16, f64})
    for (const bool accumulate : {false, true})
      check_threads([&] {
        const Tensor x = ops::cast(table, dtype).select(1, 2).transpose(0, 1).clone().transpose(0, 1);
        x.index_put_({ids, 3}, ops::cast(values, dtype), accumulate);
        return x;
      });
  check_threads([&] { return Tensor(table.index({ids, Slice(), 2})); });
  check_threads([&] { return Tensor(table.index({ids, Slice(), Tensor::scalar<int64_t>(1)})); });
  check_threads([&] { return ops::nonzero(mask); });
  check_threads([&] { return Tensor(random_tensor({300, 200}, f32, 4).index({ops::cast(mask, boolean)})); });

  // The last of several values stays, and sums are those of the definition.
  const Tensor last = Tensor::zeros({50}, f64), sum = Tensor::zeros({50}, f64);
  const Tensor exact = to_f64(values), x = Tensor::zeros({50}, f64), y = Tensor::zeros({50}, f64);
  x.index_put_({ids}, exact);
  y.index_put_({ids}, exact, true);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = (ids.data<int64_t>()[i] + 50) % 50;
    last.data<double>()[at] = exact.data<double>()[i];
    sum.data<double>()[at] += exact.data<double>()[i];
  }
  CHECK(same_bits(x, last));
  CHECK(largest_difference(y, sum) == 0);
}

TEST_CASE("masked_select, masked_scatter, nonzero, take, index_copy, index_add: values") {
  const Tensor rows = counted_rows();
  const Tensor mask = Tensor::from<bool>({true, false, true});
  CHECK(holds(ops::masked_select(rows[Slice(0, 2)], mask), {0, 2, 10, 12}));
  CHECK(holds(ops::masked_select(rows[1], Tensor::from<bool>({false, true}, {2, 1})), {10, 11, 12}));
  CHECK(holds(ops::masked_scatter(rows[Slice(0, 2)], mask, rows[Slice(2, 4)]), {20, 1, 21, 22, 11, 30}));
  CHECK(same_bits(ops::nonzero(Tensor::from<float>({0, NAN, 1, 0}, {2, 2})),
                  Tensor::from<int64_t>({0, 1, 1, 0}, {2, 2})));
  CHECK(ops::nonzero(Tensor::scalar(2.0)).shape() == Shape{1, 0});
  CHECK(ops::nonzero(Tensor::zeros({0, 3}, i64)).shape() == Shape{0, 2});
  CHECK(holds(ops::take(rows.transpose(0, 1), Tensor::from<int32_t>({0, 1, -1, 4}, {2, 2})), {0, 10, 32, 1}));
  CHECK(ops::take(rows, Tensor::scalar<int64_t>(5)).item() == 12);
  const Tensor two = Tensor::from<int64_t>({2, 0}), columns = rows[Slice(0, 4)].index({Slice(), Slice(0, 2)});
  CHECK(holds(ops::index_copy(rows, 1, two, columns)[1], {11, 11, 10}));
  CHECK(holds(ops::index_add(rows, 1, two, columns)[1], {21, 11, 22}));

  CHECK_THROWS_AS(ops::masked_select(rows, two), Error);
  CHECK_THROWS_AS(ops::masked_select(rows, Tensor::zeros({4}, boolean)), ShapeError);
  CHECK_THROWS_WITH_AS(ops::masked_scatter(rows[0], mask, rows[0][Slice(0, 1)]),
                       "masked_scatter: the mask has 2 true elements, the source (1,) has 1", ShapeError);
  CHECK_THROWS_AS(ops::masked_scatter(rows[0], mask, Tensor::zeros({3}, f32)), DTypeError);
  CHECK_THROWS_AS(ops::nonzero(rows.to(meta())), DeviceError);
  CHECK_THROWS_AS(ops::take(rows, Tensor::from<int64_t>({12})), IndexError);
  CHECK_THROWS_AS(ops::take(rows, mask), DTypeError);
  CHECK_THROWS_AS(ops::index_copy(rows, 0, two, columns), ShapeError);
  CHECK_THROWS_AS(ops::index_copy(rows, 2, two, columns), IndexError);
  CHECK_THROWS_AS(ops::index_copy(rows, 1, Tensor::from<int64_t>({3, 0}), columns), IndexError);
}

// Errors name the function that was called, not one that it is made of.

#include <doctest/doctest.h>

#include "autograd/functions/composed/places.h"
#include "autograd/functions/images/channel_norms.h"
#include "autograd/functions/images/pooling.h"
#include "tensor/composed/indexing/places.h"
#include "tensor/index.h"
#include "tensor/ops/creation/creation.h"
#include "tests/support/error_text.h"

using namespace tessera;

TEST_CASE("max_unpool: errors name it") {
  const Variable x = Tensor::zeros({1, 2, 2, 2}, f32);
  const auto unpool = [&](const Tensor& indices) { return [&x, indices] { max_unpool2d(x, indices, 2); }; };
  CHECK(message_of<IndexError>(unpool(ops::full({1, 2, 2, 2}, 99, i64, cpu()))) ==
        "max_unpool2d: index 99 is outside [0, 16), the elements of an output of (4, 4)");
  CHECK(message_of<IndexError>(unpool(ops::full({1, 2, 2, 2}, -1, i64, cpu()))) ==
        "max_unpool2d: index -1 is outside [0, 16), the elements of an output of (4, 4)");
  CHECK(message_of<DTypeError>(unpool(Tensor::zeros({1, 2, 2, 2}, f32))) ==
        "max_unpool2d: expected indices of i64 or i32, got (1, 2, 2, 2) f32 on cpu");
  CHECK(message_of<ValueError>(unpool(Tensor())) ==
        "max_unpool2d: expected the indices of a max pooling, got an undefined tensor");
}

TEST_CASE("index_put: errors name it, those of index_put_ that one") {
  const Tensor x = Tensor::zeros({3, 4}, f32), one = Tensor::zeros({}, f32), wide = Tensor::zeros({3}, f32);
  const Tensor outside = Tensor::from({7}), real = Tensor::from({0.5f});
  CHECK(message_of<IndexError>([&] { index_put(x, {5}, one); }) ==
        "index_put: index 5 at position 0 is outside [-3, 3), dimension 0 of (3, 4)");
  CHECK(message_of<IndexError>([&] { index_put(Variable(x), {outside}, one); }) ==
        "index_put: value 7 at (0,) of the index tensor at position 0 is outside [-3, 3)");
  CHECK(message_of<ShapeError>([&] { index_put(Variable(x), {1}, wide); }) ==
        "index_put: the value (3,) does not broadcast to (4,), the shape of the indexed elements");
  CHECK_THROWS_WITH_AS(index_put(x, {real}, one), doctest::Contains("index_put: the index tensor"),
                       DTypeError);
  const Tensor flags = Tensor::zeros({3}, boolean), flag = Tensor::zeros({}, boolean);
  const Tensor first = Tensor::from({0});
  CHECK(message_of<DTypeError>([&] { index_put(flags, {first}, flag, true); }) ==
        "index_put: expected a dtype other than u8 and bool to accumulate, got (3,) bool on cpu");
  CHECK(message_of<IndexError>([&] { x.index_put_({5}, one); }) ==
        "index_put_: index 5 at position 0 is outside [-3, 3), dimension 0 of (3, 4)");
  CHECK(message_of<ShapeError>([&] { Variable(x).index_put_({1}, wide); }) ==
        "index_put_: the value (3,) does not broadcast to (4,), the shape of the indexed elements");
}

TEST_CASE("instance_norm: errors name it") {
  const Variable x = Tensor::zeros({2, 3, 4}, f32);
  const Tensor three = Tensor::zeros({3}, f32), four = Tensor::zeros({4}, f32);
  const Tensor whole = Tensor::zeros({3}, i64);
  CHECK(message_of<ShapeError>([&] { instance_norm(x, four, four); }) ==
        "instance_norm: expected a running_mean of shape (3,), got (4,) f32 on cpu");
  CHECK(message_of<ShapeError>([&] { instance_norm(x, three, four, {}, {}, false); }) ==
        "instance_norm: expected a running_var of shape (3,), got (4,) f32 on cpu");
  CHECK(message_of<ValueError>([&] { instance_norm(x, three); }) ==
        "instance_norm: expected both running statistics or neither");
  CHECK(message_of<DTypeError>([&] { instance_norm(x, whole, whole); }) ==
        "instance_norm: expected a running_mean of dtype f32 for x (2, 3, 4) f32 on cpu, got (3,) i64 on "
        "cpu");
  CHECK(message_of<DTypeError>([&] { instance_norm(x, {}, {}, Variable(three.to(f64))); }) ==
        "instance_norm: expected a weight of dtype f32 for x (2, 3, 4) f32 on cpu, got (3,) f64 on cpu");
  CHECK(message_of<DTypeError>([&] {
          instance_norm(Variable(Tensor::zeros({2, 3, 4}, i64)));
        }) == "instance_norm: expected a floating dtype, got (2, 3, 4) i64 on cpu");
  CHECK(message_of<ValueError>([&] {
          instance_norm(Variable(Tensor::zeros({2, 3, 1}, f32)));
        }) ==
        "instance_norm: expected more than 1 value in a channel of a sample, got x (2, 3, 1) f32 on cpu");
}

// What goes wrong on a CUDA device, which TESSERA_TEST_DEVICE names: each is one error that says what, where
// and what to do, and work goes on after it.
#include "autograd/functions/indexing/embedding_bag.h"
#include "nn/layers/embedding.h"
#include "nn/materialize.h"
#include "tensor/cuda/memory/device_allocator.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/index.h"
#include "tensor/memory/account.h"
#include "tensor/memory/storage.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/reduction.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;
using namespace tessera::cuda_runtime;

TEST_CASE("cuda: out of memory says what was asked, what is held and what would fit; work goes on") {
  const Device device = device_under_test();
  std::string message;
  {
    const CategoryScope scope(MemoryCategory::parameter);
    const Tensor held = Tensor::empty({1 << 20}, f32, device);
    message = error_of([&] { Tensor::empty({int64_t{1} << 45}, u8, device); });
  }
  says(message, text("out of memory on ", device, ": 35184372088832 bytes were requested"));
  says(message, "are in use by tensors of this process, ");
  says(message, "the tensors of this rank hold, other devices included: parameter 4194304");
  says(message, " would fit; ");
  const int64_t before = current_account()->total().current;
  {
    // Fill the card to the last segment, free, and go on.
    std::vector<Tensor> all;
    says(error_of([&] {
           for (int i = 0; i < 4096; ++i) all.push_back(Tensor::empty({64 << 20}, u8, device));
           throw OutOfMemoryError("the card is too large for this test: out of memory on");
         }),
         "out of memory on");
  }
  CHECK(current_account()->total().current == before);
  CHECK(ops::sum(ops::ones({1000}, f32, device)).item() == 1000.0);
}

TEST_CASE("cuda: an id outside the table is found late, with operation, value and position") {
  const Device device = device_under_test();
  const Tensor table = ops::ones({5, 3}, f32, device);
  const Tensor ids = Tensor::from<int64_t>({0, 4, 5, -1}).view({2, 2}).to(device);
  const Tensor rows = ops::embedding(ids, table);
  says(error_of([&] { rows.to(cpu()); }), "embedding: index 5 at position (1, 0) is outside [0, 5)");
  CHECK(ops::sum(rows).item() == 6.0);  // what is wrong gave zeros; the error is reported once
  const Tensor gathered = ops::gather(table, 0, Tensor::from<int64_t>({7, 0, 0}).view({1, 3}).to(device));
  says(error_of([&] { synchronize(device); }), "gather: index 7 at position (0, 0) is outside [0, 5)");
  CHECK(ops::sum(gathered).item() == 2.0);
  const Tensor put = table.clone();
  put.index_put_({Tensor::from<int64_t>({1, 9, -6}).to(device)}, 4.0);
  says(error_of([&] { synchronize(device); }),
       "value 9 at (1,) of the index tensor at position 0 is outside [-5, 5)");
  CHECK(ops::sum(put).item() == 24.0);
  // Of many ids the first that is wrong, whichever block finds it.
  const Tensor many = ops::zeros({100000}, i64, device);
  many.narrow(0, 70001, 20000).copy_from(ops::full({20000}, 5, i64, device));
  ops::embedding(many, table);
  says(error_of([&] { synchronize(device); }), "index 5 at position (70001,) is outside [0, 5)");
}

TEST_CASE("cuda: an integer divisor of 0 is found late") {
  const Device device = device_under_test();
  for (const DType dtype : {i64, i32, u8}) {
    const Tensor quotient = ops::floor_divide(ops::full({3}, 4, dtype, device),
                                              Tensor::from<int64_t>({2, 0, 1}).to(dtype).to(device));
    says(error_of([&] { synchronize(device); }), "floor_divide: the divisor's element 1 is 0");
    CHECK(ops::sum(quotient).item() == 6.0);
    ops::remainder(ops::full({2, 3}, 4, dtype, device),
                   ops::zeros({3}, dtype, device).unsqueeze(0).expand({2, 3}));
    says(error_of([&] { synchronize(device); }), "remainder: the divisor's element 0 is 0");
  }
  synchronize(device);
}

TEST_CASE("cuda: offsets of bags that do not fit, and ids, are found late") {
  const Device device = device_under_test();
  const Tensor table = ops::ones({5, 3}, f32, device);
  const auto bags = [&](std::vector<int64_t> ids, std::vector<int64_t> offsets) {
    embedding_bag(Tensor::from(ids).to(device), table, Tensor::from(offsets).to(device),
                  {.mode = BagMode::sum});
    return error_of([&] { synchronize(device); });
  };
  says(bags({1, 2, 3}, {0, 2, 1}), "embedding_bag: offset 1 of bag 2 is out of order");
  says(bags({1, 2, 3}, {1, 2}), "embedding_bag: offset 1 of bag 0 is out of order");
  says(bags({1, 2, 3}, {0, 7}), "embedding_bag: offset 7 of bag 1 is out of order");
  says(bags({1, 8, 3}, {0, 1}), "embedding_bag: index 8 at position (1,) is outside [0, 5)");
  CHECK(bags({1, 2, 3}, {0, 2}).empty());
  embedding_bag(Tensor::from<int64_t>({1, 2}).to(device), table, Tensor::from<int64_t>({0, 3}).to(device),
                {.mode = BagMode::sum, .include_last_offset = true});
  says(error_of([&] { synchronize(device); }), "the last offset is 3, expected the number of ids, 2");
}

TEST_CASE("cuda: an error of another stream's kernel is found, also when the stream is gone") {
  const Device device = device_under_test();
  const Tensor table = ops::ones({5, 3}, f32, device);
  const Tensor wrong = Tensor::from<int64_t>({6}).to(device);
  synchronize(device);
  Stream kept(device);
  {
    const StreamScope scope(kept);
    ops::index_select(table, 0, wrong);
  }
  says(error_of([&] { synchronize(device); }), "index 6 at position (0,) is outside [0, 5)");
  {
    const Stream gone(device);
    const StreamScope scope(gone);
    ops::index_select(table, 0, wrong);
  }
  says(error_of([&] { synchronize(device); }), "index 6 at position (0,) is outside [0, 5)");
}

TEST_CASE("cuda: a released storage says so on the device too") {
  const Device device = device_under_test();
  const Tensor x = ops::ones({4}, f32, device);
  x.storage()->set_label("encoder.weight");
  x.storage()->release();
  says(error_of([&] { ops::add(x, x); }), "encoder.weight");
  says(error_of([&] { x.to(cpu()); }), "were released");
  x.storage()->refill();
  ops::fill_(x, 2.0);
  CHECK(ops::sum(x).item() == 8.0);
}

TEST_CASE("cuda: a device that is not there is named, with those that are") {
  const Device device = device_under_test();
  static_cast<void>(device);
  const int devices = cuda_runtime::device_count();
  says(error_of([&] { ops::zeros({1}, f32, cuda(devices)); }),
       text("cuda:", devices, ": expected an index from 0 to ", devices - 1));
}

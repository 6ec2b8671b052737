// Two CUDA devices in one process: simulated ones (TESSERA_CUDA_SIM_DEVICES=2, set by CTest), or two cards.
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "tensor/cuda/memory/device_allocator.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/indexing/sorting.h"
#include "tensor/ops/reduction.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;
using namespace tessera::cuda_runtime;

namespace {

/// Whether there are two; says so where not.
bool has_two() {
  device_under_test();
  if (cuda_runtime::device_count() >= 2) return true;
  MESSAGE("skipped: there is one CUDA device");
  return false;
}

}  // namespace

TEST_CASE("cuda:1: kernels run where their tensors are, with the CPU's results") {
  if (!has_two()) return;
  manual_seed(1);
  const Tensor x = randn({30, 40}), y = x.to(cuda(1));
  CHECK(y.device() == cuda(1));
  CHECK(have_same_bits(ops::mul(y, y), ops::mul(x, x)));
  CHECK(have_same_bits(ops::sort(y).indices, ops::sort(x).indices));
  CHECK(ops::max(y).item() == ops::max(x).item());
  const Tensor z = x.to(cuda(0));  // each device has its own queue
  CHECK(have_same_bits(ops::add(z, z), ops::add(y, y)));
}

TEST_CASE("cuda:1: tensors go from device to device, in any layout and dtype") {
  if (!has_two()) return;
  manual_seed(2);
  const Tensor x = randn({20, 31, 3}), y = x.to(cuda(0));
  const Tensor moved = ops::add(y, y).to(cuda(1));
  CHECK(moved.device() == cuda(1));
  CHECK(have_same_bits(moved, ops::add(x, x)));
  CHECK(have_same_bits(y.transpose(0, 2).to(cuda(1)), x.transpose(0, 2)));
  CHECK(have_same_bits(y.narrow(1, 4, 20).to(cuda(1)), x.narrow(1, 4, 20)));
  CHECK(have_same_bits(y.to(cuda(1), bf16), ops::cast(x, bf16)));
  CHECK(have_same_bits(moved.to(cuda(0)), ops::add(x, x)));
  // The source may be changed: the copy is ordered before.
  const Tensor changed = ops::full({1 << 16}, 5.0, f32, cuda(0));
  const Tensor copied = changed.to(cuda(1));
  ops::mul_(changed, 2.0);
  CHECK(ops::max(copied).item() == 5);
  // A view of it may be given back and its memory used again.
  Tensor base = ops::full({1 << 16}, 3.0, f32, cuda(0));
  const Tensor part = base.narrow(0, 8, 1000).to(cuda(1));
  base = Tensor();
  const Tensor in_its_place = ops::full({1 << 16}, 4.0, f32, cuda(0));
  CHECK(ops::max(part).item() == 3);
  CHECK(ops::min(in_its_place).item() == 4);
  // So may all of it.
  Tensor source = ops::full({1 << 16}, 5.0, f32, cuda(0));
  const Tensor kept = source.to(cuda(1));
  source = Tensor();
  const Tensor other = ops::full({1 << 16}, 6.0, f32, cuda(0));
  CHECK(ops::max(kept).item() == 5.0);
  CHECK(ops::max(other).item() == 6.0);
}

TEST_CASE("cuda:1: the devices' memory is counted apart, the bytes of an account together") {
  if (!has_two()) return;
  const int64_t first = device_allocator_statistics(cuda(0)).used;
  const int64_t second = device_allocator_statistics(cuda(1)).used;
  const int64_t before = current_account()->total().current;
  {
    const Tensor a = Tensor::empty({1000}, f32, cuda(0)), b = Tensor::empty({500}, f32, cuda(1));
    CHECK(device_allocator_statistics(cuda(0)).used == first + 4000);
    CHECK(device_allocator_statistics(cuda(1)).used == second + 2000);
    CHECK(current_account()->total().current == before + 6000);
  }
  CHECK(device_allocator_statistics(cuda(0)).used == first);
  CHECK(device_allocator_statistics(cuda(1)).used == second);
  CHECK(current_account()->total().current == before);
}

TEST_CASE("cuda:1: operands of two devices are an error that names both") {
  if (!has_two()) return;
  const Tensor a = ops::zeros({2}, f32, cuda(0)), b = ops::zeros({2}, f32, cuda(1));
  says(error_of([&] { ops::add(a, b); }), "expected all operands on one device, got cuda:0 and cuda:1");
  says(error_of([&] { ops::index_select(a, 0, ops::zeros({1}, i64, cuda(1))); }), "got cuda:0 and cuda:1");
  says(error_of([&] { Tensor::empty({1}, f32, cuda(2)); }), "expected an index from 0 to 1");
}

TEST_CASE("cuda:1: streams belong to a device, and a block is kept for a stream of the other") {
  if (!has_two()) return;
  const Stream stream(cuda(1));
  {
    const StreamScope scope(stream);
    CHECK(current_stream(cuda(1)) == stream.get());
    CHECK(current_stream(cuda(0)) != stream.get());
    const Tensor x = ops::full({100}, 2.0, f32, cuda(1));
    CHECK(ops::sum(ops::mul(x, x)).item() == 400.0);
  }
  {
    const DeviceGuard guard(cuda(1));
    const Tensor x = ops::full({10}, 2.0, f32, cuda(0));  // a tensor's device decides
    CHECK(ops::sum(x).item() == 20.0);
  }
  Event event(cuda(0));
  says(error_of([&] { event.record(stream.get()); }), "belongs to another device");
  CHECK(ops::sum(ops::ones({4}, f32, cuda(0))).item() == 4.0);  // the error is not reported again
}

TEST_CASE("cuda:1: a late error belongs to the device that it happened on") {
  if (!has_two()) return;
  const Tensor table = ops::zeros({4, 2}, f32, cuda(1));
  ops::index_select(table, 0, Tensor::from<int64_t>({1, 9}).to(cuda(1)));
  synchronize(cuda(0));
  says(error_of([] { synchronize(cuda(1)); }), "index 9 at position (1,) is outside [0, 4)");
  synchronize(cuda(1));
}

TEST_CASE("cuda:1: a module moves there, and its gradients are the CPU's") {
  if (!has_two()) return;
  nn::Linear net(8, 5), twin(8, 5);
  nn::materialize(net, cpu(), 3);
  nn::materialize(twin, cpu(), 3);
  twin.to(cuda(1));
  const Tensor x = ops::linspace(-1, 1, 24, f32).view({3, 8});
  sum(net(x) * net(x)).backward();
  sum(twin(x.to(cuda(1))) * twin(x.to(cuda(1)))).backward();
  for (size_t i = 0; i < net.parameters().size(); ++i) {
    const Variable own = net.parameters()[i].variable, there = twin.parameters()[i].variable;
    CHECK(there.device() == cuda(1));
    CHECK(there.grad().device() == cuda(1));
    const Tensor difference = ops::sub(own.grad().value(), there.grad().value().to(cpu()));
    CHECK(ops::max(ops::mul(difference, difference)).item() < 1e-9);
  }
}

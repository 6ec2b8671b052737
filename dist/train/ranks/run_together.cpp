#include "dist/train/ranks/run_together.h"

#include <exception>
#include <future>
#include <limits>

#include "dist/checkpoint/rank_agreement.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"

namespace tessera::training {

void run_together(dist::World* world, const std::function<void()>& body) {
  std::exception_ptr error;
  try {
    body();
  } catch (...) {
    error = std::current_exception();
  }
  if (!world) {
    if (error) std::rethrow_exception(error);
    return;
  }
  const CategoryScope category(MemoryCategory::communication);
  constexpr int64_t none = std::numeric_limits<int64_t>::max();
  Tensor failed = ops::full({1}, error ? world->rank() : none, i64);
  world->communicator().all_reduce(failed, dist::Reduction::min).wait();
  const int64_t first = failed.data<int64_t>()[0];
  if (first == none) return;
  if (first == world->rank()) std::rethrow_exception(error);
  world->communicator().barrier().wait();  // throws PeerFailedError: that rank never reaches it
}

void run_long_together(dist::World* world, const std::function<void()>& body) {
  if (!world) return body();
  std::future<void> work = dist::run_long(world->communicator(), body);
  run_together(world, [&] { work.get(); });
}

}  // namespace tessera::training

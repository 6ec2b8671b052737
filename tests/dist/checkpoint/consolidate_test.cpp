#include "dist/checkpoint/consolidate.h"

#include <doctest/doctest.h>

#include "dist/checkpoint/checkpoint_writer.h"
#include "dist/checkpoint/rank_save.h"
#include "tensor/memory/account.h"
#include "tests/dist/checkpoint/checkpoint_fixture.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

/// A tensor of 24 MiB: three of the blocks that are copied at once.
constexpr int64_t rows = 3000, columns = 2098;

Tensor flat_values(const Tensor& full, int64_t begin, int64_t end) {
  return full.view({full.numel()}).narrow(0, begin, end - begin);
}

}  // namespace

TEST_CASE("consolidate: 8 MiB are in memory at once, for tensors of any size, cut in any way") {
  const TemporaryFolder folder;
  const Shape shape{rows, columns};
  Tensor flat = Tensor::empty(shape, f32), boxed = Tensor::empty(shape, i32);
  for (int64_t i = 0; i < flat.numel(); ++i) {
    flat.data<float>()[i] = static_cast<float>(i);
    boxed.data<int32_t>()[i] = static_cast<int32_t>(7 * i);
  }
  {
    CheckpointWriter writer(folder.path(), 1);
    const int64_t flat_cuts[] = {0, 1234567, 1234568, shape.numel()}, box_cuts[] = {0, 1, 999, columns};
    for (int rank = 0; rank < 3; ++rank) {
      const int64_t begin = flat_cuts[rank], end = flat_cuts[rank + 1];
      const int64_t left = box_cuts[rank], width = box_cuts[rank + 1] - left;
      const std::vector<TensorShard> shards{
          {"flat", shape, flat_range(shape, begin, end), flat_values(flat, begin, end)},
          {"boxed", shape, {{0, left}, {rows, width}, 0, rows * width}, boxed.narrow(1, left, width)}};
      writer.add(write_shards(writer.folder(), text("model-", rank, ".safetensors"), "model", shards));
    }
    writer.publish(state_at(1));
  }
  const CheckpointReader reader(find_checkpoint(folder.path()));
  MemoryAccount& account = *current_account();
  account.reset_peaks();
  const int64_t before = account.total().current;
  consolidate(reader, folder / "all.safetensors");
  CHECK(account.total().peak - before <= int64_t{8} << 20);
  CHECK(account.total().current == before);
  const io::SafetensorsFile file(folder / "all.safetensors");
  CHECK(same_bits(file.read("flat"), flat));
  CHECK(same_bits(file.read("boxed"), boxed));
}

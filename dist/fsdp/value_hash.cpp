#include "dist/fsdp/value_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tensor/error.h"

namespace tessera::dist {

int64_t value_hash(const Tensor& values) {
  if (values.is_meta()) return 0;
  const std::string type = text(values.dtype(), values.shape());
  const Tensor flat = values.to(cpu()).contiguous();
  const XXH64_hash_t hash = XXH3_64bits_withSeed(flat.raw_data(), static_cast<size_t>(flat.nbytes()),
                                                 XXH3_64bits(type.data(), type.size()));
  return hash == 0 ? 1 : static_cast<int64_t>(hash);
}

Tensor gather_value_hashes(Communicator& ranks, std::span<const Tensor> tensors) {
  std::vector<int64_t> mine;
  for (const Tensor& tensor : tensors) mine.push_back(value_hash(tensor));
  const Tensor all = Tensor::empty({ranks.size(), std::ssize(mine)}, i64);
  ranks
      .all_gather(all, Tensor::from(std::span<const int64_t>(mine), {std::ssize(mine)}),
                  {.unit = "hashes of values"})
      .wait();
  return all;
}

}  // namespace tessera::dist

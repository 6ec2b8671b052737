#include "dist/fsdp/partitioned_store.h"

#include <algorithm>

#include "dist/fsdp/value_hash.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// A value of which this rank holds its part: elements [rank * part, (rank + 1) * part) of the flat value,
/// with arbitrary ones after its end.
class PartitionedValue final : public ValueSource {
 public:
  PartitionedValue(Communicator& ranks, const char* op, const Tensor& value, const SavingPolicy& parts)
      : ranks_(ranks),
        shape_(value.shape()),
        elements_(value.numel()),
        part_elements_((elements_ + ranks.size() - 1) / ranks.size()),
        part_(Tensor::empty({part_elements_}, value.dtype(), value.device())) {
    const int64_t first = std::min(elements_, ranks.rank() * part_elements_);
    const int64_t count = std::min(part_elements_, elements_ - first);
    if (count > 0)
      part_.narrow(0, 0, count).copy_from(value.contiguous().view({elements_}).narrow(0, first, count));
    if (parts) elsewhere_ = parts(op, part_);
    if (elsewhere_) part_ = Tensor();
  }
  Tensor produce() override {
    const Tensor part = elsewhere_ ? elsewhere_->produce() : part_;
    const Tensor all = Tensor::empty({part_elements_ * ranks_.size()}, part.dtype(), part.device());
    if (!all.is_meta()) ranks_.all_gather(all, part, {.unit = "kept inputs"}).wait();
    return all.narrow(0, 0, elements_).view(shape_);
  }

 private:
  Communicator& ranks_;
  Shape shape_;
  int64_t elements_, part_elements_;
  Tensor part_;                             // undefined where it is elsewhere
  std::shared_ptr<ValueSource> elsewhere_;  // null where it is here
};

}  // namespace

PartitionedStore::PartitionedStore(Communicator& ranks, SavingPolicy parts)
    : ranks_(ranks), parts_(std::move(parts)) {}

SavingPolicy PartitionedStore::policy() const {
  return [&ranks = ranks_, parts = parts_](const char* op,
                                           const Tensor& value) -> std::shared_ptr<ValueSource> {
    if (ranks.size() == 1) return parts ? parts(op, value) : nullptr;
    if (value.numel() == 0) return nullptr;
    const Tensor hashes = gather_value_hashes(ranks, std::span(&value, 1));
    for (int other = 1; other < ranks.size(); ++other)
      require<ValueError>(hashes.data<int64_t>()[other] == hashes.data<int64_t>()[0],
                          "PartitionedStore: expected one value on all ranks of '", ranks.name(), "', got ",
                          describe(value), " on rank ", ranks.rank(), " and others on rank ", other,
                          " than on rank 0: ranks that train samples of their own have no values to share");
    return std::make_shared<PartitionedValue>(ranks, op, value, parts);
  };
}

}  // namespace tessera::dist

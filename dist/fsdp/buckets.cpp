#include "dist/fsdp/buckets.h"

#include "tensor/ops/training/multi_tensor.h"

namespace tessera::dist {

Buckets::Buckets(std::vector<FlatParameter*> flats, std::shared_ptr<Communicator> group, int64_t bucket_bytes,
                 const MessageOptions& messages)
    : flats_(std::move(flats)), group_(std::move(group)), messages_(messages) {
  int64_t end = 0;
  for (const FlatParameter* flat : flats_) end += flat->layout().numel();
  Bucket bucket{.end = end};
  const auto close = [&](int64_t begin) {
    bucket.begin = begin;
    for (const Member& member : bucket.members)
      bucket_of_[member.flat->parameters()[member.index].variable.impl().get()] = buckets_.size();
    buckets_.push_back(std::exchange(bucket, Bucket{.end = begin}));
  };
  for (size_t f = flats_.size(); f-- > 0;) {
    FlatParameter& flat = *flats_[f];
    const int64_t first = end -= flat.layout().numel();
    for (size_t i = flat.parameters().size(); i-- > 0;) {
      bucket.members.push_back({&flat, i});
      const int64_t begin = first + flat.layout().offset(i);
      if ((bucket.end - begin) * size_of(flat.gradient().dtype()) >= bucket_bytes) close(begin);
    }
  }
  if (!bucket.members.empty()) close(0);
}

void Buckets::allocate() {
  if (flats_.empty()) return;
  int64_t numel = 0;
  for (const FlatParameter* flat : flats_) numel += flat->layout().numel();
  const CategoryScope category(MemoryCategory::gradient);
  gradients_ = group_->empty({numel}, flats_.front()->gradient().dtype());
  gradients_.storage()->set_label("the gradients of all units");
  gradients_.storage()->release();
  int64_t offset = 0;
  for (FlatParameter* flat : flats_) {
    flat->gradient().set_buffer(gradients_.narrow(0, offset, flat->layout().numel()));
    offset += flat->layout().numel();
  }
}

void Buckets::begin(std::span<const Variable> leaves) {
  for (FlatParameter* flat : flats_) flat->gradient().prepare();
  for (Bucket& bucket : buckets_) {
    bucket.pending = 0;
    bucket.ranges.clear();
  }
  for (const Variable& leaf : leaves)
    if (const auto found = bucket_of_.find(leaf.impl().get()); found != bucket_of_.end())
      ++buckets_[found->second].pending;
  started_ = summed_ = 0;
}

void Buckets::finish_leaf(const VariableImpl* leaf) {
  const auto found = bucket_of_.find(leaf);
  if (found != bucket_of_.end() && --buckets_[found->second].pending == 0 && messages_.overlap)
    start_complete();
}

void Buckets::start_complete() {
  for (; started_ < buckets_.size() && buckets_[started_].pending == 0; ++started_) {
    Bucket& bucket = buckets_[started_];
    for (const Member& member : bucket.members) member.flat->gradient().collect(member.index);
    bucket.calls =
        start_average(*group_, gradients_.narrow(0, bucket.begin, bucket.end - bucket.begin),
                      messages_.reduce_elements, {.unit = "bucket", .traffic = Traffic::gradients});
  }
  // Values that have just been averaged are still in a cache.
  for (; summed_ < started_ && buckets_[summed_].calls.is_done(); ++summed_) sum_squares(buckets_[summed_]);
}

void Buckets::sum_squares(Bucket& bucket) const {
  for (const Member& member : bucket.members) {
    const FlatGradient& gradient = member.flat->gradient();
    if (gradient.takes_squares()) gradient.append_ranges(member.index, gradient.buffer(), bucket.ranges);
  }
  if (!bucket.ranges.empty()) bucket.squares = ops::power_sums(bucket.ranges, 2.0);
}

/// Once nothing is written to the array any more.
void Buckets::note_squares() {
  gradients_.bump_version();  // a collective does not
  for (Bucket& bucket : buckets_) {
    for (size_t i = 0; i < bucket.ranges.size(); ++i)
      bucket.ranges[i].note_squares(bucket.squares.data<double>()[i]);
    bucket.ranges.clear();
  }
}

void Buckets::abandon() {
  for (Bucket& bucket : buckets_) bucket.calls.wait();
}

void Buckets::finish() {
  start_complete();
  for (size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].calls.wait();
    if (i >= summed_) sum_squares(buckets_[i]);
  }
  if (gradients_.defined()) note_squares();
}

}  // namespace tessera::dist

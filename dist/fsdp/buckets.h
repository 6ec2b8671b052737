#pragma once  // internal

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "dist/fsdp/flat_parameter.h"

namespace tessera::dist {

/// How no_shard averages gradients while backward still runs (Li et al. 2020, PyTorch's DDP). The gradients
/// of all units lie in one array, divided between parameters into buckets of at least `bucket_bytes`. A
/// bucket is all-reduced once backward has finished every parameter in it, last layers first. The order of
/// buckets is fixed, so all ranks make the same calls, whichever parameters they use.
class Buckets {
 public:
  /// `flats` in the order of the units, all of one gradient dtype. A bucket is reduced in the messages of
  /// `messages`.
  Buckets(std::vector<FlatParameter*> flats, std::shared_ptr<Communicator> group, int64_t bucket_bytes,
          const MessageOptions& messages);

  /// Allocates the array and makes the flats' gradients views of it.
  void allocate();

  /// Begins a backward that reaches exactly `leaves`.
  void begin(std::span<const Variable> leaves);
  /// Notes that the gradient of a parameter is complete.
  void finish_leaf(const VariableImpl* leaf);
  /// Averages the remaining buckets and waits for all.
  void finish();
  /// Returns when nothing is in flight. For a backward that an exception ended.
  void abandon();

  /// Number of buckets.
  size_t size() const { return buckets_.size(); }

 private:
  struct Member {
    FlatParameter* flat;
    size_t index;
  };
  struct Bucket {
    int64_t begin = 0, end = 0;  // elements of the array
    std::vector<Member> members = {};
    int64_t pending = 0;
    MessageCalls calls = {};
    std::vector<Tensor> ranges = {};  // that `squares` has the sums of
    Tensor squares = {};
  };
  void start_complete();
  void sum_squares(Bucket& bucket) const;
  void note_squares();

  std::vector<FlatParameter*> flats_;
  std::shared_ptr<Communicator> group_;
  MessageOptions messages_;
  Tensor gradients_;
  std::vector<Bucket> buckets_;  // from the end of the array to its begin
  std::unordered_map<const VariableImpl*, size_t> bucket_of_;
  size_t started_ = 0, summed_ = 0;
};

}  // namespace tessera::dist

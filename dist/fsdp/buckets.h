#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "dist/fsdp/flat_parameter.h"

namespace tessera::dist {

/// How no_shard averages gradients while backward still runs (Li et al. 2020, PyTorch's DDP): the gradients
/// of all units lie in one array, cut at parameters into stretches of at least `bucket_bytes`. A stretch is
/// all-reduced once backward has finished with every parameter in it, last layers first. The order of
/// stretches is fixed, so all ranks call alike, whichever parameters they use.
class Buckets {
 public:
  /// `flats` in the order of the units, all of one gradient dtype.
  Buckets(std::vector<FlatParameter*> flats, std::shared_ptr<Communicator> group, int64_t bucket_bytes);

  /// Makes the array, and the flats' gradients parts of it.
  void allocate();

  /// A backward begins that will reach `leaves`, and no others.
  void begin(std::span<const Variable> leaves);
  /// Backward is done with a parameter.
  void finish_leaf(const VariableImpl* leaf);
  /// Averages what is left and waits for all.
  void finish();
  /// Returns when nothing is in flight: after a backward that an exception ended.
  void abandon();

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
    Work work = {};
  };
  void start_complete();

  std::vector<FlatParameter*> flats_;
  std::shared_ptr<Communicator> group_;
  Tensor gradients_;
  std::vector<Bucket> buckets_;  // from the end of the array
  std::unordered_map<const VariableImpl*, size_t> bucket_of_;
  size_t started_ = 0;
};

}  // namespace tessera::dist

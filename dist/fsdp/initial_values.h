#pragma once

#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "nn/module.h"

namespace tessera::dist {

/// What a model holds before it is sharded, compared over the ranks: a parameter whose shards came from ranks
/// with different values would be a mixture that no rank had. All ranks call the members alike.
class InitialValues {
 public:
  /// Of every parameter and buffer from `root` down but those of `left_out`. Throws ValueError on every rank,
  /// naming the first parameter and the ranks, unless all hold the same values (by hash), or none any yet.
  /// With `from_rank_0` others may hold other values or none: `broadcast` gives them rank 0's.
  InitialValues(nn::Module& root, const std::vector<nn::Module*>& left_out, Communicator& ranks,
                bool from_rank_0);

  /// Whether `variable` has its values from rank 0.
  bool comes_from_rank_0(const Variable& variable) const;
  /// Gives this rank rank 0's values of `variable`, if it has them from there.
  void broadcast(const Variable& variable) const;
  /// The same for all that the `sharded` parameters are not.
  void broadcast_all_but(const nn::ParameterSet& sharded) const;

 private:
  struct Entry {
    std::string name;
    Variable variable;
  };
  void collect(nn::Module& module, const std::vector<nn::Module*>& left_out, const std::string& prefix);
  void compare();
  [[noreturn]] void refuse(const std::string& name, const std::vector<int>& others, bool has_first,
                           bool has_other) const;

  Communicator& ranks_;
  bool from_rank_0_;
  std::vector<Entry> entries_;
  nn::ParameterSet sent_;  ///< what rank 0 has values of
};

/// Throws ValueError on every rank, naming both ranks and seeds, unless all have the same one: shards of
/// different random values make none.
void require_same_seed(Communicator& ranks, uint64_t seed);

}  // namespace tessera::dist

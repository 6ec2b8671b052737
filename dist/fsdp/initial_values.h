#pragma once  // internal

#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "nn/module.h"

namespace tessera::dist {

/// The values of a model before it is sharded, compared over the ranks: shards from ranks with different
/// values would make a parameter that no rank had. All ranks make the same calls.
class InitialValues {
 public:
  /// Of every parameter and buffer from `root` down except those of `excluded`. Throws ValueError on every
  /// rank, naming the first parameter and the ranks, unless all ranks have the same dtypes, train the same
  /// parameters, and hold the same values (by hash), or none has values yet. With `from_rank_0` the other
  /// ranks may hold other values or none: `broadcast` gives them rank 0's.
  InitialValues(nn::Module& root, const std::vector<nn::Module*>& excluded, Communicator& ranks,
                bool from_rank_0);

  /// Whether `variable` has its values from rank 0.
  bool comes_from_rank_0(const Variable& variable) const;
  /// Sends rank 0's values of `variable` to all ranks, if it has its values from rank 0.
  void broadcast(const Variable& variable) const;
  /// `broadcast` of all variables except the `sharded` parameters.
  void broadcast_except(const nn::ParameterSet& sharded) const;

 private:
  struct Entry {
    std::string name;
    Variable variable;
  };
  void collect(nn::Module& module, const std::vector<nn::Module*>& excluded, const std::string& prefix);
  void compare_kinds();
  void compare();
  [[noreturn]] void throw_mismatch(const std::string& name, const std::vector<int>& others, bool has_first,
                                   bool has_other) const;

  Communicator& ranks_;
  bool from_rank_0_;
  std::vector<Entry> entries_;
  nn::ParameterSet on_rank_0_;  ///< variables whose values come from rank 0
};

/// Throws ValueError on every rank, naming two ranks and their seeds, unless all have the same seed.
void require_same_seed(Communicator& ranks, uint64_t seed);

}  // namespace tessera::dist

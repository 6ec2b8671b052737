#pragma once  // internal

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "dist/fsdp/flat_parameter.h"

namespace tessera::dist {

/// A module, with the parameters in it that are gathered together: a state, and operations that change it.
///
///     sharded --unshard--> gathering --wait--> unsharded --reshard--> sharded
///                                                  \-----reduce-----> reducing --finish_reduce--> sharded
///
/// Gradients are reduced while those of the next unit are computed: `reducing` is a state of the gradients,
/// the parameters are freed before. Calls of `unshard` are counted: every forward that runs, a schedule and
/// each `Hold` makes one. The last `reshard` frees the bytes.
class Unit {
 public:
  /// The states of the diagram above.
  enum class State { sharded, gathering, unsharded, reducing };
  /// What keeps a unit gathered besides the calls that run. Each counts once, however often it is taken.
  enum class Hold {
    prefetch,  ///< gathered before its use
    kept,      ///< from forward on, for the coming backward
    backward,  ///< a backward computes with it, or the recomputation of a segment does
  };

  /// Lays out the plan's parameters, in one flat array for each dtype and for trained and frozen ones.
  Unit(UnitPlan plan, const FlatOptions& options);
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  /// The module's full name: "blocks.3"; "root" for the root.
  const std::string& name() const { return name_; }
  /// The unit is gathered for calls of this module.
  nn::Module& module() const { return *module_; }
  /// `reducing` from `reduce` to `finish_reduce`, else the state of the parameters.
  State state() const { return reducing_ ? State::reducing : state_; }
  /// One for each dtype, and for trained and frozen parameters.
  const std::vector<std::unique_ptr<FlatParameter>>& flats() const { return flats_; }
  /// Whether any of its flat arrays is trainable.
  bool is_trainable() const;
  /// Number of parameters.
  int64_t parameter_count() const;
  /// `FlatParameter::materialize` of each flat array.
  void materialize(Device device, uint64_t seed);

  /// Starts to gather the parameters, unless they are gathered with the shards' present values, and keeps
  /// them until the matching `reshard`.
  /// @{
  void unshard();
  void unshard(Hold hold);
  /// @}
  /// `unshard(Hold::prefetch)` of at most `most` elements that are not gathered yet. Without the hold where
  /// that is none of them.
  void prefetch(int64_t most);
  /// Elements that `prefetch` has started to gather and that are not in use yet.
  int64_t elements_ahead() const { return elements_ahead_; }
  /// Returns when they are gathered.
  void wait();
  /// Ends one hold. The last one frees the parameters, where the strategy shards them.
  void reshard();
  /// Ends this hold, if it was taken.
  void reshard(Hold hold);
  /// Ends all holds of the kinds in `Hold`.
  void release_holds();
  /// Starts to average the gradients over the ranks.
  void reduce();
  /// Returns when that is done and the optimizer has its gradients.
  void finish_reduce();

  /// Whether the parameters are gathered with the shards' present values.
  bool is_gathered() const;
  /// Prepares the memory in which backward accumulates.
  void prepare_gradients();
  /// Drops gradients that were not marked as unreduced.
  void drop_unmarked();
  /// After a backward that an exception ended: drops all gradients that the optimizer has not received yet.
  void abandon();
  /// `FlatGradient::restore_published` of each flat array.
  void restore_published();
  /// Marks gradients as accumulated on this rank and not reduced.
  void mark_unreduced();
  /// Whether any flat array has gradients that are marked as unreduced.
  bool has_unreduced() const;
  /// Returns when no other rank reads this rank's values any more.
  void wait_for_readers();

 private:
  void gather();

  std::string name_;
  nn::Module* module_;
  std::vector<std::unique_ptr<FlatParameter>> flats_;
  State state_ = State::sharded;  // of the parameters
  int hold_count_ = 0;
  std::array<bool, 3> holds_{};  // by Hold
  bool reducing_ = false;
  int64_t elements_ahead_ = 0;
};

/// "sharded", "gathering", "unsharded", "reducing".
const char* name_of(Unit::State state);

}  // namespace tessera::dist

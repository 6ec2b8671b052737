#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "dist/fsdp/flat_parameter.h"

namespace tessera::dist {

/// The life of one unit in a step: four verbs and a state.
///
///     sharded --unshard--> gathering --wait--> unsharded --reshard--> sharded
///                                                  \-----reduce-----> reducing --finish_reduce--> sharded
///
/// Gradients are reduced while the next unit's are computed, so `reducing` says what its gradients do; its
/// parameters are freed first. `unshard` is counted: every forward that runs, a schedule, and each `Hold` has
/// one of its own, and the bytes go when the last gives its own back.
class Unit {
 public:
  enum class State { sharded, gathering, unsharded, reducing };
  /// What holds a unit gathered beside the calls that run: taken and given back once, however often.
  enum class Hold {
    ahead,     ///< gathered ahead of its use
    kept,      ///< from forward on, for the backward to come
    backward,  ///< a backward computes with it, or a recomputation that belongs to one
  };

  /// Lays out the plan's parameters: trainable and frozen ones, and each dtype, apart.
  Unit(UnitPlan plan, const FlatOptions& options);
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  const std::string& name() const { return name_; }
  nn::Module& module() const { return *module_; }
  State state() const { return reducing_ ? State::reducing : state_; }
  const std::vector<std::unique_ptr<FlatParameter>>& flats() const { return flats_; }
  bool is_trainable() const;
  /// How many parameters it has.
  int64_t parameter_count() const;
  void materialize(Device device, uint64_t seed);

  /// Starts to gather the parameters, unless they are there as the shards have them now, and holds them until
  /// the `reshard` that belongs to it.
  void unshard();
  void unshard(Hold hold);
  /// Returns when they are there.
  void wait();
  /// Gives one hold back; the last frees the parameters, where the strategy shards them.
  void reshard();
  void reshard(Hold hold);
  /// Gives back all of `Hold`.
  void reshard_idle();
  /// Starts to average the gradients over the ranks.
  void reduce();
  /// Returns when that is done and the optimizer's gradients are there.
  void finish_reduce();

  /// Whether the parameters are there, as the shards have them now.
  bool is_gathered() const;
  /// Readies the memory in which backward adds.
  void prepare_gradients();
  /// Gradients that nobody marked as unreduced are none.
  void forget_unfinished();
  /// After a backward that an exception ended: drops all gradients that the optimizer has not got yet.
  void abandon();
  /// Gradients were added that no other rank has seen.
  void mark_unreduced();
  bool has_unreduced() const;
  /// Returns when no other rank reads this one's numbers any more.
  void settle();

 private:
  void gather();

  std::string name_;
  nn::Module* module_;
  std::vector<std::unique_ptr<FlatParameter>> flats_;
  State state_ = State::sharded;  // of the parameters
  int held_ = 0;
  std::array<bool, 3> holds_{};  // by Hold
  bool reducing_ = false;
};

/// "sharded", "gathering", "unsharded", "reducing".
const char* name_of(Unit::State state);

}  // namespace tessera::dist

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dist/fsdp/messages.h"
#include "dist/fsdp/policy.h"
#include "dist/fsdp/strategy.h"
#include "dist/mesh/mesh.h"
#include "nn/module.h"

namespace tessera::dist {

class Unit;

/// Dtypes in which a sharded model computes and communicates. The optimizer's values stay as declared (f32).
struct Precision {
  /// Of gathered parameters, and of the root's floating inputs except under autocast: bf16 or f16.
  std::optional<DType> compute = {};
  /// In which gradients are reduced; default: f32, or the parameters' dtype.
  std::optional<DType> reduce = {};
  /// To which floating buffers are cast, in checkpoints too; default: they keep theirs.
  std::optional<DType> buffer = {};
  /// To which the root's floating results are cast.
  std::optional<DType> output = {};
  /// Gradients stay in `reduce` instead of f32.
  bool keep_low_precision_grads = false;
};

/// When backward gathers the next unit's parameters: before this unit's gradients are computed (most
/// overlap), after (less memory), or when they are needed.
enum class BackwardPrefetch { pre, post, none };

/// Options of `shard`.
struct ShardOptions {
  Mesh mesh;  ///< with a dimension "shard"; "replica" too for hybrid strategies
  Strategy strategy = Strategy::full_shard;  ///< what is sharded, and when
  UnitPolicy units = {};                     ///< default: the whole model is one unit
  Precision precision = {};                  ///< default: the parameters' own dtypes
  /// Only under strategies that free a unit's parameters after its forward.
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  /// Gathers the next unit ahead of its use, in the order of the last forward.
  bool forward_prefetch = false;
  /// Most units that are gathered or being gathered at once because of prefetch, the one in use included.
  int gathers_in_flight = 2;
  /// The calls that gather parameters and reduce gradients, and limits of their sizes.
  MessageOptions messages = {};
  /// Multiple that parameters and shards are padded to, in elements.
  int64_t alignment = 16;
  /// no_shard: gradients are all-reduced in buckets of at least this size, as backward completes them.
  int64_t bucket_bytes = int64_t{25} << 20;
  /// Modules whose parameters are not sharded and whose gradients are not averaged. A checkpoint stores their
  /// state once if all ranks hold the same, else each rank's own (dist/checkpoint).
  std::vector<nn::Module*> ignored = {};
  /// Ignored modules start with other values on each rank (experts) and are neither compared nor broadcast.
  bool ignored_differ = false;
  /// All ranks take rank 0's values when the model is sharded; the other ranks may still be on meta. Without
  /// it all ranks must hold the same values.
  bool sync_module_states = false;
};

/// A model's sharded parameters, and the hooks that gather, free and reduce them. Lives as long as the model.
class Sharding final : public nn::ParameterStore {
 public:
  /// Shards `root` as `shard` does, which also makes this the model's store.
  Sharding(nn::Module& root, ShardOptions options);
  ~Sharding() override;
  Sharding(const Sharding&) = delete;
  Sharding& operator=(const Sharding&) = delete;

  /// As given to the constructor.
  const ShardOptions& options() const;
  /// The root first.
  std::span<const std::unique_ptr<Unit>> units() const;
  /// Number of ranks that hold the same shard of each parameter, and this rank's index among them.
  /// @{
  int replicas() const;
  int replica_index() const;
  /// @}

  /// Full names of the parameters that are not sharded and of the buffers of ignored modules, which may
  /// differ from rank to rank.
  std::set<std::string> ignored_names() const;

  /// Averages over the ranks the gradients that backwards under `Accumulation` left unreduced, without
  /// another backward: for a step that ends in a part of a backward, as those of pipelines do. All ranks call
  /// it together, outside of `Accumulation`. Throws ConfigError within a call of the model or a backward.
  void reduce_gradients();

  ParameterList parameters(const nn::Module& module) override;
  void materialize(Device device, uint64_t seed) override;
  Tensor full_value(const std::string& name, const Variable& parameter) override;

  class Engine;  ///< what the hooks call; dist/fsdp/engine.h
  Engine& engine() { return *engine_; }
  /// The same for what may outlive the model: null from its destruction on.
  std::weak_ptr<Engine> weak_engine() const { return engine_; }

 private:
  std::shared_ptr<Engine> engine_;
};

/// Shards `module`'s parameters over the ranks of a mesh, according to a strategy. Applied from outside to a
/// model written for one device, before `nn::materialize` (then no rank holds a full unit during
/// initialisation) or after. From then on `module.parameters()` lists this rank's shards, so that a training
/// loop reads the same on one rank and on many; a step of an optimizer made before is an error. Parameters
/// may be frozen and unfrozen later, on all ranks, through the module, its Variables or the local shards; the
/// next forward follows. A backward that an exception ends on all ranks keeps the gradients of completed
/// backwards. Those that it computed itself are dropped, since they are not averaged, except of units that
/// were reduced before the exception; those of earlier micro-batches of an open `Accumulation` that were not
/// communicated are dropped too. All ranks call it with the same options. Throws ConfigError for a mesh or
/// precision that does not suit the strategy, for a unit with parameters that no call would gather, and for a
/// layer with 8-bit weights (nn/quantize_weights.h) that is not among the ignored; ValueError, naming
/// parameter and ranks, where ranks hold different values (see `sync_module_states`) or dtypes, or train a
/// parameter that another rank has frozen.
///
///     models::Gpt gpt(options);
///     dist::shard(gpt, {.mesh = mesh,
///                       .strategy = dist::Strategy::full_shard,
///                       .units = dist::every<models::Block>()});
///     nn::materialize(gpt, world.device(), 1337);
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 13
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdangling-reference"  // the result belongs to `module`, not to the options
#endif
Sharding& shard(nn::Module& module, ShardOptions options);
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 13
#pragma GCC diagnostic pop
#endif

/// While it lives, backwards belong to a micro-batch that is not the step's last one: their gradients are
/// added to later ones. Without `communicate` full gradients stay on their rank until a backward outside
/// (no_sync): least traffic. With it they are reduced at once and added as shards: least memory.
class Accumulation {
 public:
  /// For all units. The destructor restores the accumulation that was open before. It may end after
  /// the model.
  Accumulation(Sharding& sharding, bool communicate);
  ~Accumulation();
  Accumulation(const Accumulation&) = delete;
  Accumulation& operator=(const Accumulation&) = delete;

 private:
  std::weak_ptr<Sharding::Engine> engine_;
  bool was_open_, did_communicate_;
};

/// PyTorch's name for accumulation without communication.
class NoSync : public Accumulation {
 public:
  /// `Accumulation` without `communicate`.
  explicit NoSync(Sharding& sharding) : Accumulation(sharding, false) {}
};

/// Options of SummonFullParams.
struct SummonOptions {
  nn::Module* unit = nullptr;  ///< a unit's module; null for all units
  bool write_back = false;     ///< copies changed values back into the shards
};

/// While it lives, a model's Variables (or one unit's) hold full parameters in the dtype of the optimizer's
/// values: to read, to change, to evaluate or to sample. Under no_shard these are the values themselves, and
/// a change stays. All ranks open and close it together. Throws ConfigError when one is open already, when
/// `unit` is not a unit's module, and while a forward of the model or a backward runs; so does a backward
/// that reaches the parameters while one of all units is open. A forward in it may run backward after it,
/// unless values were changed since, or the parameters' compute dtype is another one: a ConfigError. It may
/// end after the model.
class SummonFullParams {
 public:
  /// Gathers the values and shows them in the Variables. All ranks pass the same options.
  explicit SummonFullParams(Sharding& sharding, const SummonOptions& options = {});
  ~SummonFullParams();
  SummonFullParams(const SummonFullParams&) = delete;
  SummonFullParams& operator=(const SummonFullParams&) = delete;

 private:
  struct FullParameters;
  std::weak_ptr<Sharding::Engine> engine_;
  bool write_back_;
  std::vector<FullParameters> full_;
};

/// While it lives, a unit's parameters (or all units') stay gathered in their compute dtype: between the
/// halves of a split backward, over several micro-batches, for a child of a unit that is called by itself.
/// Forward and backward have holds of their own; the end of the last hold frees the bytes. After an
/// optimizer's step the next call gathers the new values. All ranks open it together. Throws ConfigError when
/// `unit` is not a unit's module, or before the parameters have values. It may end after
/// the model.
class Unsharded {
 public:
  /// `unit` is a unit's module; null for all units. Returns when they are gathered.
  explicit Unsharded(Sharding& sharding, const nn::Module* unit = nullptr);
  ~Unsharded();
  Unsharded(const Unsharded&) = delete;
  Unsharded& operator=(const Unsharded&) = delete;

 private:
  std::weak_ptr<Sharding::Engine> engine_;
  std::vector<Unit*> units_;
};

}  // namespace tessera::dist

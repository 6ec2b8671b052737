#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dist/fsdp/policy.h"
#include "dist/fsdp/strategy.h"
#include "dist/mesh/mesh.h"
#include "nn/module.h"

namespace tessera::dist {

class Unit;

/// In which dtypes a sharded model computes and communicates. The optimizer's numbers stay as declared (f32).
struct Precision {
  std::optional<DType> compute =
      {};  ///< of gathered parameters and of the root's floating inputs: bf16 or f16
  std::optional<DType> reduce =
      {};  ///< in which gradients travel; f32 (or the parameters' dtype) if not said
  /// That floating buffers are turned into, for checkpoints too; they stay as they are if not said.
  std::optional<DType> buffer = {};
  std::optional<DType> output = {};  ///< that the root's floating results are cast to
  /// Gradients stay as they were reduced, in `reduce`, instead of in f32.
  bool keep_low_precision_grads = false;
};

/// When backward gathers the next unit's parameters: before this unit's gradients are computed (most
/// overlap), after (less memory), or when they are needed.
enum class BackwardPrefetch { pre, post, none };

struct ShardOptions {
  Mesh mesh;  ///< with a dimension "shard"; "replica" too for hybrid strategies
  Strategy strategy = Strategy::full_shard;
  UnitPolicy units = {};
  Precision precision = {};
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  /// Gathers the next unit of the last forward's order ahead of time.
  bool forward_prefetch = false;
  /// Units whose parameters are on their way or there ahead of use at once, the one in use included.
  int gathers_in_flight = 2;
  /// Multiple that parameters and shards are padded to, in elements.
  int64_t alignment = 16;
  /// no_shard: gradients are all-reduced in stretches of at least so many bytes, as backward completes them.
  int64_t bucket_bytes = int64_t{25} << 20;
  /// Modules whose parameters stay whole and are averaged over no ranks. Checkpoints have their state once
  /// while all ranks hold the same, and each rank's own where they differ (dist/checkpoint).
  std::vector<nn::Module*> ignored = {};
  /// Ignored modules begin with other values on each rank (experts): these are neither compared nor
  /// broadcast.
  bool ignored_differ = false;
  /// Values that the model holds when it is sharded become rank 0's on all ranks; the others may still be on
  /// meta. Without it all ranks must hold the same.
  bool sync_module_states = false;
};

/// A model's parameters cut over ranks, and the hooks that gather, free and reduce them. Lives with the
/// model.
class Sharding final : public nn::ParameterStore {
 public:
  Sharding(nn::Module& root, ShardOptions options);
  ~Sharding() override;
  Sharding(const Sharding&) = delete;
  Sharding& operator=(const Sharding&) = delete;

  const ShardOptions& options() const;
  /// The root first.
  std::span<const std::unique_ptr<Unit>> units() const;
  /// How many ranks hold the same part of each parameter, and this rank's number among them.
  int replicas() const;
  int replica_index() const;

  /// Full names of the parameters that are not sharded and of the buffers of ignored modules: no rank keeps
  /// them equal to the others'.
  std::set<std::string> ignored_names() const;

  ParameterList parameters(const nn::Module& module) override;
  void materialize(Device device, uint64_t seed) override;
  Tensor full_value(const std::string& name, const Variable& parameter) override;

  class Engine;  ///< the hooks' side; dist/fsdp/engine.h
  Engine& engine() { return *engine_; }

 private:
  std::unique_ptr<Engine> engine_;
};

/// Cuts `module`'s parameters over the ranks of a mesh, by one word: the strategy. Applied from outside, to a
/// model written for one device, before `nn::materialize` (then no rank ever holds a whole unit while it is
/// initialised) or after. From then on `module.parameters()` lists this rank's parts, so a training loop
/// reads the same on one rank and on many; the step of an optimizer made before is an error. Parameters may
/// be frozen and unfrozen later, on all ranks alike, through the module, its Variables or the local parts:
/// the next forward follows. All ranks call it alike. Throws ConfigError for a mesh or precision that does
/// not suit the strategy, and for a unit whose parameters no call would gather, ValueError, naming parameter
/// and ranks, where ranks hold different values (see `sync_module_states`).
///
///     models::Gpt gpt(options);
///     dist::shard(gpt, {.mesh = mesh, .strategy = dist::Strategy::full_shard, .units =
///     dist::every<models::Block>()}); nn::materialize(gpt, world.device(), 1337);
Sharding& shard(nn::Module& module, ShardOptions options);

/// A micro-batch that is not the step's last one, while it lives: what its backwards compute is added to what
/// comes later. Without `communicate` gradients stay on their rank, whole, until a backward outside
/// (no_sync): least traffic. With it they are reduced at once and added as shards: least memory.
class Accumulation {
 public:
  Accumulation(Sharding& sharding, bool communicate);
  ~Accumulation();
  Accumulation(const Accumulation&) = delete;
  Accumulation& operator=(const Accumulation&) = delete;

 private:
  Sharding& sharding_;
  bool was_open_, did_communicate_;
};

/// PyTorch's name for accumulation without communication.
class NoSync : public Accumulation {
 public:
  explicit NoSync(Sharding& sharding) : Accumulation(sharding, false) {}
};

struct SummonOptions {
  nn::Module* unit = nullptr;  ///< a unit's module; null for all
  bool write_back = false;     ///< what was changed goes back into the shards
};

/// While it lives, a model's parameters (or one unit's) are whole, in the dtype of the optimizer's numbers:
/// to look at, to change, to evaluate or to sample. Under no_shard they are the numbers themselves, and what
/// is changed is changed. All ranks open and close it together. Throws ConfigError when one is open already,
/// `unit` is none, or a forward of the model or a backward runs; so does a backward towards the parameters
/// while all are whole.
class SummonFullParams {
 public:
  explicit SummonFullParams(Sharding& sharding, const SummonOptions& options = {});
  ~SummonFullParams();
  SummonFullParams(const SummonFullParams&) = delete;
  SummonFullParams& operator=(const SummonFullParams&) = delete;

 private:
  struct Whole;
  Sharding& sharding_;
  bool write_back_;
  std::vector<Whole> wholes_;
};

/// While it lives, a unit's parameters (or all) stay gathered, in the dtype that they are computed in:
/// between the halves of a split backward, over several micro-batches, for a part of a unit that is called
/// alone. Forward and backward hold them beside it; the bytes go when the last of all gives them back. After
/// an optimizer's step the next call gathers the new numbers. All ranks open it together. Throws ConfigError
/// when `unit` is no unit's module, or before the parameters have numbers.
class Unsharded {
 public:
  explicit Unsharded(Sharding& sharding, const nn::Module* unit = nullptr);
  ~Unsharded();
  Unsharded(const Unsharded&) = delete;
  Unsharded& operator=(const Unsharded&) = delete;

 private:
  std::vector<Unit*> units_;
};

}  // namespace tessera::dist

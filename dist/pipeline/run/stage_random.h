#pragma once  // internal

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "nn/sequence/layer_spec.h"
#include "tensor/random/random_context.h"

namespace tessera::dist {

struct MicroBatch;

/// The random numbers of a micro-batch from stage to stage. The first stage takes the next key of its
/// thread's generator for the draws without a name, so that each micro-batch of each step has others; the
/// state travels with the values, so the numbers are the same for any number of stages and any schedule.
/// Draws of a module have its name, and are those of one device; a module that several stages call has drawn
/// in earlier ones.
class StageRandom {
 public:
  /// `names` are those of the modules that several stages call.
  explicit StageRandom(std::set<std::string> names = {}) : names_(names.begin(), names.end()) {}

  /// The context of a micro-batch at the first stage. Advances the thread's generator.
  RandomContext first(const MicroBatch& batch) const;
  /// The context at a later stage, from the state that came with the values.
  RandomContext next(const MicroBatch& batch, std::span<const int64_t> state) const;
  /// The state after a stage's forward: the generator's seed and number of calls, then, for each module that
  /// several stages call and that has drawn, its number among `names` and its calls.
  std::vector<int64_t> state_of(const RandomContext& context) const;

 private:
  std::vector<std::string> names_;
};

/// The names of the modules at and below those of the layers that more than one stage calls.
std::set<std::string> names_in_several_stages(std::span<const std::set<std::string>> names_by_stage);
/// The names of the modules that layers call.
std::set<std::string> names_of_modules(std::span<const nn::Module* const> modules);

}  // namespace tessera::dist

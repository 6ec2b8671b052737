#include "dist/pipeline/run/stage_random.h"

#include <algorithm>

#include "dist/pipeline/run/pipeline.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// The thread's context for the samples and the step of a micro-batch, before its first draw.
RandomContext context_of(const MicroBatch& batch) {
  RandomContext random = random_context();
  random.samples = batch.samples;
  random.step = batch.step.value_or(random.step);
  random.calls.clear();
  return random;
}

}  // namespace

RandomContext StageRandom::first(const MicroBatch& batch) const {
  RandomContext random = context_of(batch);
  random.generator_seed = next_generator_key();
  random.generator_calls = 0;
  return random;
}

RandomContext StageRandom::next(const MicroBatch& batch, std::span<const int64_t> state) const {
  require<ValueError>(state.size() >= 2 && state.size() % 2 == 0,
                      "pipeline: expected the state of random numbers with the values of a forward, got ",
                      state.size(), " numbers");
  RandomContext random = context_of(batch);
  random.generator_seed = static_cast<uint64_t>(state[0]);
  random.generator_calls = static_cast<uint64_t>(state[1]);
  for (size_t i = 2; i < state.size(); i += 2)
    random.calls[names_.at(static_cast<size_t>(state[i]))] = static_cast<uint32_t>(state[i + 1]);
  return random;
}

std::vector<int64_t> StageRandom::state_of(const RandomContext& context) const {
  std::vector<int64_t> state{static_cast<int64_t>(context.generator_seed),
                             static_cast<int64_t>(context.generator_calls)};
  for (const auto& [name, calls] : context.calls) {
    const auto found = std::lower_bound(names_.begin(), names_.end(), name);
    if (found == names_.end() || *found != name) continue;
    state.push_back(found - names_.begin());
    state.push_back(calls);
  }
  return state;
}

std::set<std::string> names_of_modules(std::span<const nn::Module* const> modules) {
  std::set<std::string> names;
  for (const nn::Module* module : modules)
    module->for_each([&names](const nn::Module& each) { names.insert(each.full_name()); });
  return names;
}

std::set<std::string> names_in_several_stages(std::span<const std::set<std::string>> names_by_stage) {
  std::set<std::string> seen, several;
  for (const std::set<std::string>& names : names_by_stage)
    for (const std::string& name : names)
      if (!seen.insert(name).second) several.insert(name);
  return several;
}

}  // namespace tessera::dist

#include "data/example_random.h"

#include "data/random_draws.h"

namespace tessera::data {

ExampleRandomScope::ExampleRandomScope(uint64_t seed, int64_t epoch)
    : seed_(seed), epoch_(epoch), scope_(RandomContext{.seed = seed, .step = epoch}) {}

void ExampleRandomScope::begin_example(int64_t index) {
  RandomContext& context = random_context();
  // Two draws, since a counter holds 96 bits besides the purpose, and epoch and index have 64 each.
  context.generator_seed = draw(draw(seed_, Purpose::example, static_cast<uint64_t>(epoch_), 0),
                                Purpose::example, static_cast<uint64_t>(index), 1);
  context.generator_calls = 0;
  context.calls.clear();
  context.samples.assign(1, index);
}

}  // namespace tessera::data

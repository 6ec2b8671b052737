#include "tensor/random/random_context.h"

#include <xxhash.h>

#include <cstring>
#include <utility>

#include "tensor/batched/batched.h"

namespace tessera {

RandomContext& random_context() {
  thread_local RandomContext context;
  return context;
}

RandomContext RandomContext::without_calls() const {
  return {.seed = seed, .step = step, .samples = samples};
}

RandomContextScope::RandomContextScope(RandomContext context)
    : previous_(std::exchange(random_context(), std::move(context))) {}
RandomContextScope::~RandomContextScope() {
  random_context() = std::move(previous_);
}

void begin_random_step(uint64_t seed, int64_t step, std::span<const int64_t> samples) {
  RandomContext& context = random_context();
  context.seed = seed;
  context.step = step;
  context.samples.assign(samples.begin(), samples.end());
  context.calls.clear();
}

namespace {

/// Appends the `count` low bytes of `value`, little-endian.
void append(std::string& bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xffu);
}

}  // namespace

uint64_t random_key(uint64_t seed, const std::string& name, uint32_t call) {
  std::string bytes;
  append(bytes, seed, 8);
  bytes += name;
  append(bytes, call, 4);
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t next_generator_key() {
  batched::check_random_draw();
  RandomContext& context = random_context();
  std::string bytes = "generator";
  append(bytes, context.generator_seed, 8);
  append(bytes, context.generator_calls++, 8);
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t next_random_key(const std::string& name) {
  batched::check_random_draw();
  RandomContext& context = random_context();
  return random_key(context.seed, name, context.calls[name]++);
}

}  // namespace tessera

#include <doctest/doctest.h>

#include <thread>

#include "tensor/random/random_context.h"

using namespace tessera;

TEST_CASE(
    "random context: a key depends on the seed, the module and the call, and calls are counted per step") {
  const int64_t samples[] = {4, 5};
  begin_random_step(7, 3, samples);
  CHECK(random_context().sample(1) == 5);
  const uint64_t first = next_random_key("blocks.0.drop"), second = next_random_key("blocks.0.drop");
  CHECK(first == random_key(7, "blocks.0.drop", 0));
  CHECK(second == random_key(7, "blocks.0.drop", 1));
  CHECK(first != second);
  CHECK(next_random_key("blocks.1.drop") == random_key(7, "blocks.1.drop", 0));
  begin_random_step(7, 4, {});
  CHECK(next_random_key("blocks.0.drop") == first);
  CHECK(random_context().sample(1) == 1);
}

TEST_CASE("random context: key derivation matches test vectors") {
  // xxh3_64 (Python's xxhash package) of 8 bytes of seed, the name, 4 bytes of call.
  CHECK(random_key(0, "", 0) == 0xc4998f9169c2a4f0ull);
  CHECK(random_key(1337, "blocks.3.attn", 0) == 0xaa8ad4035f33982eull);
  CHECK(random_key(1337, "blocks.3.attn", 2) == 0x8425f8db060161e2ull);
}

TEST_CASE("random context: a scope restores the previous context, threads have their own") {
  begin_random_step(1, 1, {});
  next_random_key("a");
  {
    RandomContextScope scope(RandomContext{.seed = 9});
    CHECK(next_random_key("a") == random_key(9, "a", 0));
  }
  CHECK(next_random_key("a") == random_key(1, "a", 1));
  std::thread([] { CHECK(random_context().step == 0); }).join();
}

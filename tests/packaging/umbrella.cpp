// First, so that the header has to compile alone.
#include "tessera/tessera.h"

#include <doctest/doctest.h>

#include <string>

using namespace tessera;

const char* version_in_other_source();

// umbrella_again.cpp includes the header too: linking both fails if it defines anything that is not inline.
TEST_CASE("umbrella header: compiles alone, and in two sources of one program") {
  const std::string version = std::to_string(TESSERA_VERSION_MAJOR) + "." +
                              std::to_string(TESSERA_VERSION_MINOR) + "." +
                              std::to_string(TESSERA_VERSION_PATCH);
  CHECK(version == TESSERA_VERSION);
  CHECK(version == version_in_other_source());
}

TEST_CASE("umbrella header: no call of an operation is ambiguous through it") {
  const Tensor hot = ops::one_hot(Tensor::from<int64_t>({2, 0}), 3);
  CHECK(hot.dtype() == i64);
  CHECK(hot.select(0, 0).select(0, 2).item_i64() == 1);
  CHECK(ops::one_hot(Tensor::from<int64_t>({2, 0}), 3, f32).dtype() == f32);
}

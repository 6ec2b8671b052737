#include "tensor/nearest_name.h"

#include <doctest/doctest.h>

#include <vector>

using namespace tessera;

TEST_CASE("edit_distance: insertions, deletions, changes and swaps count one each") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("bathc", "batch") == 1);
  CHECK(edit_distance("ca", "abc") == 3);  // the restricted distance: no edit inside a swap
}

TEST_CASE("nearest_name: a near name is found, a far one is not") {
  const std::vector<std::string> flags{"--batch-size", "--block-size", "--lr", "--steps"};
  CHECK(nearest_name("--batchsize", flags) == "--batch-size");
  CHECK(nearest_name("--blcok-size", flags) == "--block-size");
  CHECK(nearest_name("--step", flags) == "--steps");
  CHECK(nearest_name("--rl", flags) == "--lr");
  CHECK(nearest_name("--frobnicate", flags) == "");
  CHECK(nearest_name("--x", flags) == "");
}

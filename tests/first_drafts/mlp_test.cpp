// `int main() {` becomes a function that needs no return.
#define main()     \
  declared_only(); \
  void train()
#include "tests/first_drafts/mlp.cpp"  // NOLINT(bugprone-suspicious-include)
#undef main

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

TEST_CASE("first drafts: the MLP learns the spiral in its 20 epochs, and its file loads") {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  train();
  Net net;
  nn::materialize(net, cpu(), 2);
  net.load_state_dict(load("model.pt"));
  std::filesystem::current_path(before);
  const Spiral spiral;
  // PyTorch's program, with three seeds: 0.79, 0.82, 0.97. A constant answer has 0.5.
  CHECK(mean(argmax(net(spiral.x).value(), 1).eq(spiral.y).to(f32)).item() > 0.75);
}

// The options of module hooks: prepend and always_call.

#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "nn/layer.h"

using namespace tessera;

namespace {

struct Doubler : nn::Layer<Doubler> {
  Variable forward(const Variable& x, bool throws = false) {
    if (throws) throw ValueError("from forward");
    return x * 2.0;
  }
};

using Names = std::vector<std::string>;
using In = const nn::CallVariables&;

}  // namespace

TEST_CASE("hook options: a prepended hook is called before those of its kind") {
  Doubler layer;
  Names seen;
  const auto note = [&](const char* name) {
    return [&seen, name](nn::Module&, In) { seen.push_back(name); };
  };
  layer.register_forward_pre_hook(note("pre 1"));
  layer.register_forward_pre_hook(note("pre 2"), {.prepend = true});
  layer.register_forward_pre_hook(note("pre 3"));
  const auto after = [&](const char* name) {
    return [&seen, name](nn::Module&, In, In) { seen.push_back(name); };
  };
  layer.register_forward_hook(after("1"));
  HookHandle second = layer.register_forward_hook(after("2"), {.prepend = true});
  const auto backward_pre = [&](const char* name) {
    return [&seen, name](nn::Module&, std::vector<Variable>&) { seen.push_back(name); };
  };
  layer.register_full_backward_pre_hook(backward_pre("back 1"));
  layer.register_full_backward_pre_hook(backward_pre("back 2"), {.prepend = true});
  const auto full = [&](const char* name) {
    return [&seen, name](nn::Module&, std::vector<Variable>&, const std::vector<Variable>&) {
      seen.push_back(name);
    };
  };
  layer.register_full_backward_hook(full("full 1"));
  layer.register_full_backward_hook(full("full 2"), {.prepend = true});
  const Variable x = Variable::leaf(Tensor::scalar(1.0));
  layer(x).backward();
  CHECK(seen == Names{"pre 2", "pre 1", "pre 3", "2", "1", "back 2", "back 1", "full 2", "full 1"});
  second.remove();
  seen.clear();
  layer(Variable(Tensor::scalar(1.0)));
  CHECK(seen == Names{"pre 2", "pre 1", "pre 3", "1"});
}

TEST_CASE("hook options: always_call runs a forward hook also where the forward throws") {
  Doubler layer;
  Names seen;
  layer.register_forward_hook([&](nn::Module&, In, In) { seen.push_back("ordinary"); });
  layer.register_forward_hook(
      [&](nn::Module&, In inputs, In outputs) {
        seen.push_back(text("always ", inputs.size(), " ", outputs.size()));
        if (outputs.empty()) throw std::runtime_error("dropped");
      },
      {.always_call = true});
  layer.register_forward_failure_hook([&](nn::Module&) { seen.push_back("failure"); });
  const Variable x = Tensor::scalar(1.0);
  CHECK(layer(x).item() == 2);
  CHECK(seen == Names{"ordinary", "always 1 1"});
  seen.clear();
  CHECK_THROWS_WITH_AS(layer(x, true), "from forward", ValueError);
  CHECK(seen == Names{"always 1 0", "failure"});
}

TEST_CASE("hook options: always_call after an error of another hook, once for each call") {
  Doubler layer;
  Names seen;
  bool pre_throws = false, hook_throws = false;
  const auto always = [&](const char* name) {
    return [&seen, name](nn::Module&, In, In outputs) { seen.push_back(text(name, outputs.size())); };
  };
  layer.register_forward_pre_hook([&](nn::Module&, In) {
    if (pre_throws) throw ValueError("from a pre-hook");
  });
  layer.register_forward_hook(always("first "), {.always_call = true});
  layer.register_forward_hook([&](nn::Module&, In, In) {
    if (hook_throws) throw ValueError("from a hook");
  });
  layer.register_forward_hook([&](nn::Module&, In, In) { seen.push_back("ordinary"); });
  layer.register_forward_hook(always("last "), {.always_call = true});
  const Variable x = Tensor::scalar(1.0);
  pre_throws = true;
  CHECK_THROWS_WITH_AS(layer(x), "from a pre-hook", ValueError);
  CHECK(seen == Names{"first 0", "last 0"});
  seen.clear();
  pre_throws = false;
  hook_throws = true;
  CHECK_THROWS_WITH_AS(layer(x), "from a hook", ValueError);
  CHECK(seen == Names{"first 1", "last 1"});
}

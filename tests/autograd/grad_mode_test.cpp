#include "autograd/grad_mode.h"

#include <doctest/doctest.h>

#include <thread>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/variable.h"

using namespace tessera;

TEST_CASE("grad mode: guards nest, and restore the mode before") {
  CHECK(is_grad_enabled());
  {
    NoGradGuard off;
    CHECK_FALSE(is_grad_enabled());
    {
      EnableGrad on;
      CHECK(is_grad_enabled());
      set_grad_enabled mode(false);
      CHECK_FALSE(is_grad_enabled());
    }
    AutoGradMode on(true);
    CHECK(is_grad_enabled());
  }
  CHECK(is_grad_enabled());
  {
    InferenceMode inference;
    CHECK_FALSE(is_grad_enabled());
    InferenceMode not_inference(false);
    CHECK(is_grad_enabled());
  }
  CHECK(is_grad_enabled());
}

TEST_CASE("grad mode: functions that call a function under a guard return its result") {
  const Variable x = Variable::leaf(Tensor::scalar(3.0));
  const Variable y = no_grad([&] { return x * x; });
  CHECK(y.item() == 9);
  CHECK_FALSE(y.requires_grad());
  CHECK(no_grad([&] { return enable_grad([&] { return x * x; }); }).requires_grad());
  CHECK_FALSE(inference_mode([&] { return x * x; }).requires_grad());
  int n = 0;
  int& reference = no_grad([&]() -> int& { return n; });
  CHECK(&reference == &n);
  no_grad([&] { n = 1; });
  CHECK(n == 1);
  CHECK_THROWS_AS(no_grad([]() -> int { throw ValueError("inside"); }), ValueError);
  CHECK(is_grad_enabled());
  // An ordinary constant: a graph may use it, and change it.
  const Variable z = inference_mode([&] { return x * x; });
  (z * x).backward();
  CHECK(x.grad().item() == 9);
  mul_(z, x);
  CHECK(z.requires_grad());
}

TEST_CASE("grad mode: each thread has its own") {
  NoGrad off;
  bool recorded = false;
  std::thread([&recorded] { recorded = is_grad_enabled(); }).join();
  CHECK(recorded);
}

// The model against PyTorch's, from the same weights and batches: logits, gradients, and ten training steps.

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "autograd/functions/layers/loss.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/parameter_groups.h"
#include "optim/rules/adam.h"
#include "optim/schedules/cosine.h"
#include "tensor/io/safetensors.h"
#include "tests/ops/golden.h"

using namespace tessera;

namespace {

const io::SafetensorsFile& goldens() {
  static const io::SafetensorsFile file(TESSERA_TEST_DATA_DIR "/models/goldens/gpt.safetensors");
  return file;
}

/// A parameter's name in the golden file: h.0.mlp.c_fc.weight for blocks.0.mlp.fc.weight.
std::string golden_name(std::string name) {
  const auto replace = [&name](const std::string& from, const std::string& to) {
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  };
  replace("blocks.", "h.");
  replace("mlp.fc.", "mlp.c_fc.");
  replace("mlp.proj.", "mlp.c_proj.");
  if (name.starts_with("head.")) name = "lm_head." + name.substr(5);
  return name;
}

models::GptOptions options_of(const test::Arguments& a) {
  return {.vocabulary = a.integer("vocab_size"),
          .block_size = a.integer("block_size"),
          .layers = a.integer("n_layer"),
          .heads = a.integer("n_head"),
          .width = a.integer("n_embd"),
          .dropout = a.real("dropout"),
          .bias = a.flag("bias"),
          .qkv_bias = a.flag("qkv_bias"),
          .tie_weights = a.flag("tie_weights")};
}

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const Tensor x = a.contiguous(), y = b.contiguous();
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i)
    largest = std::max(largest, std::abs(x.data<double>()[i] - y.data<double>()[i]));
  return largest;
}

/// One variant of the model with PyTorch's initial weights, in f64.
struct Golden {
  std::string variant;
  test::Arguments arguments;
  models::Gpt gpt;

  explicit Golden(const std::string& name)
      : variant(name), arguments(goldens().metadata().at(name)), gpt(options_of(arguments)) {
    gpt.to(f64);
    nn::materialize(gpt, cpu(), 0);
    for (const NamedParameter& p : gpt.parameters())
      p.variable.value().copy_from(read("param/" + golden_name(p.name)));
  }
  Tensor read(const std::string& name) const { return goldens().read(variant + "/" + name); }
};

}  // namespace

TEST_CASE("gpt: logits and gradients are PyTorch's, for every variant") {
  for (const char* variant : {"nano", "gpt_lite", "gpt2"}) {
    CAPTURE(variant);
    Golden golden(variant);
    const Variable logits = golden.gpt(golden.read("x").select(0, 0));
    CHECK(largest_difference(logits.value(), golden.read("logits")) < 1e-12);
    cross_entropy(logits, golden.read("y").select(0, 0)).backward();
    for (const NamedParameter& p : golden.gpt.parameters()) {
      CAPTURE(p.name);
      CHECK(largest_difference(p.variable.grad().value(), golden.read("grad/" + golden_name(p.name))) <
            1e-12);
    }
  }
}

TEST_CASE("gpt: ten steps of AdamW with clipping follow PyTorch's losses, norms and weights") {
  for (const char* variant : {"nano", "gpt_lite", "gpt2"}) {
    CAPTURE(variant);
    Golden golden(variant);
    const test::Arguments& r = golden.arguments;
    const optim::AdamWOptions options{.lr = r.real("lr"),
                                      .betas = {r.real("beta1"), r.real("beta2")},
                                      .weight_decay = r.real("weight_decay")};
    optim::AdamW adam(optim::decay_groups(golden.gpt.parameters(), options));
    optim::Schedule schedule = optim::cosine({.lr = r.real("lr"),
                                              .min_lr = r.real("min_lr"),
                                              .warmup_steps = r.integer("warmup_steps"),
                                              .steps = r.integer("steps")});
    const Tensor x = golden.read("x"), y = golden.read("y"), losses = golden.read("losses"),
                 norms = golden.read("norms");
    for (int64_t step = 0; step < r.integer("steps"); ++step) {
      CAPTURE(step);
      const Variable loss = cross_entropy(golden.gpt(x.select(0, step)), y.select(0, step));
      CHECK(loss.item() == doctest::Approx(losses.select(0, step).item()).epsilon(1e-10));
      loss.backward();
      const optim::ClipCoefficient clip =
          optim::clip_coefficient(golden.gpt.parameters(), r.real("grad_clip"));
      CHECK(clip.norm.item() == doctest::Approx(norms.select(0, step).item()).epsilon(1e-9));
      schedule.apply(adam);
      adam.step({.clip = clip.coefficient});
      schedule.advance();
      adam.zero_grad();
    }
    for (const NamedParameter& p : golden.gpt.parameters()) {
      CAPTURE(p.name);
      CHECK(largest_difference(p.variable.value(), golden.read("final/" + golden_name(p.name))) < 1e-9);
    }
  }
}

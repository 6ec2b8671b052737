#include <doctest/doctest.h>

#include <map>
#include <span>
#include <string>
#include <tuple>

#include "autograd/debug/graph_dot.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/matmul.h"
#include "autograd/grad_mode.h"
#include "autograd/recompute/checkpoint.h"
#include "models/presets.h"
#include "nn/materialize.h"
#include "nn/summary.h"
#include "tensor/random/random_context.h"

using namespace tessera;

TEST_CASE("gpt: presets have their published parameter counts, and allocate nothing on meta") {
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  struct Published {
    const char* name;
    int64_t parameters;
  };
  const Published presets[] = {
      {"tiny", 28'576}, {"nano-cpu", 804'096}, {"nano", 10'745'088}, {"gpt-lite", 86'701'056}};
  for (const Published& preset : presets) {
    CAPTURE(preset.name);
    models::Gpt gpt(models::preset(preset.name, 65).model);
    CHECK(gpt.parameters().numel() == preset.parameters);
    CHECK(models::parameter_count(gpt.o) == preset.parameters);
  }
  models::Gpt gpt2(models::gpt2());
  CHECK(gpt2.parameters().numel() == 124'475'904);
  models::Gpt lite(models::gpt_lite(65));
  CHECK(lite.at("blocks.5").parameters().numel() == 7'085'568);
  CHECK(account->total().peak == 0);
}

TEST_CASE("gpt: a meta run counts the FLOPs of the formula's matrix products") {
  models::Gpt gpt(models::nano_cpu(65));
  const nn::Summary s = nn::summary(gpt, {2, 64});
  // Forward: 2 per weight and token (positions have no product), 4 C per visible pair of positions and layer.
  const int64_t tokens = 2 * 64, weights = models::parameter_count(gpt.o) - 64 * 128 - 9 * 128;
  const int64_t pairs = 2 * 64 * 65 / 2;
  CHECK(s.flops == 2 * weights * tokens + 4 * 4 * 128 * pairs);
}

TEST_CASE("gpt: cached decoding gives the logits of the full sequence") {
  models::Gpt gpt({.vocabulary = 11, .block_size = 8, .layers = 2, .heads = 2, .width = 16});
  gpt.to(f64);
  nn::materialize(gpt, cpu(), 4);
  gpt.eval();
  NoGrad no_grad;
  const Tensor ids = Tensor::from<int64_t>({1, 5, 9, 0, 10, 3, 3, 7}, {1, 8});
  const Tensor full = gpt(ids).value();
  models::GptCache cache = gpt.make_cache(1);
  int64_t position = 0;
  for (int64_t step : {3, 1, 2, 1, 1}) {
    const Tensor chunk = gpt.forward_cached(ids.narrow(1, position, step).contiguous(), cache).value();
    for (int64_t t = 0; t < step; ++t)
      for (int64_t v = 0; v < 11; ++v)
        CHECK(chunk.select(0, 0).select(0, t).select(0, v).item() ==
              doctest::Approx(full.select(0, 0).select(0, position + t).select(0, v).item()).epsilon(1e-12));
    position += step;
  }
  CHECK_THROWS_WITH_AS(gpt.forward_cached(ids.narrow(1, 0, 1).contiguous(), cache),
                       doctest::Contains("block size 8"), ShapeError);
}

TEST_CASE("gpt: cached decoding of prompts of different lengths, and of beams that go on from one row") {
  models::Gpt gpt({.vocabulary = 11, .block_size = 8, .layers = 2, .heads = 2, .width = 16});
  gpt.to(f64);
  nn::materialize(gpt, cpu(), 4);
  gpt.eval();
  NoGrad no_grad;
  const Tensor ids = Tensor::from<int64_t>({1, 5, 9, 0, 10, 3, 3, 7, 2, 2, 8, 4, 1, 0, 6, 5}, {2, 8});
  const Tensor full = gpt(ids).value();
  const auto is_position = [&](const Tensor& logits, int64_t row, int64_t t, int64_t of, int64_t position) {
    for (int64_t v = 0; v < 11; ++v)
      CHECK(logits.select(0, row).select(0, t).select(0, v).item() ==
            doctest::Approx(full.select(0, of).select(0, position).select(0, v).item()).epsilon(1e-12));
  };
  models::GptCache cache = gpt.make_cache(2);
  const std::vector<int64_t> lengths{5, 2};
  const Tensor prompt = gpt.forward_cached(ids.narrow(1, 0, 5).contiguous(), cache, lengths).value();
  is_position(prompt, 0, 4, 0, 4);
  is_position(prompt, 1, 1, 1, 1);
  const Tensor next = gpt.forward_cached(Tensor::from<int64_t>({3, 8}, {2, 1}), cache).value();
  is_position(next, 0, 0, 0, 5);
  is_position(next, 1, 0, 1, 2);
  const int64_t second[] = {1, 1};
  cache.reorder(second);
  const Tensor beams = gpt.forward_cached(Tensor::from<int64_t>({4, 4}, {2, 1}), cache).value();
  is_position(beams, 0, 0, 1, 3);
  is_position(beams, 1, 0, 1, 3);
  cache.truncate(1);
  CHECK(cache.length() == 1);
  CHECK_THROWS_AS(gpt.forward_cached(ids.narrow(1, 0, 5).contiguous(), cache, std::vector<int64_t>{5}),
                  ValueError);
  CHECK_THROWS_WITH_AS(gpt.forward_cached(ids, cache, std::vector<int64_t>{8, 2}),
                       doctest::Contains("block size 8 in row 0"), ShapeError);
}

TEST_CASE("gpt: bad sizes and ids are named") {
  const auto refusal = [](const models::GptOptions& options) -> std::string {
    try {
      models::Gpt gpt(options);
    } catch (const ValueError& error) {
      return error.what();
    }
    return "nothing";
  };
  for (const int64_t size : {0, -1}) {
    const std::string expected = text(" to be at least 1, got ", size);
    CHECK(refusal({.vocabulary = size}) == "Gpt: expected vocabulary" + expected);
    CHECK(refusal({.block_size = size}) == "Gpt: expected block_size" + expected);
    CHECK(refusal({.layers = size}) == "Gpt: expected layers" + expected);
    CHECK(refusal({.heads = size}) == "Gpt: expected heads" + expected);
    CHECK(refusal({.width = size}) == "Gpt: expected width" + expected);
  }
  CHECK(refusal({.heads = 3, .width = 128}) == "Gpt: expected heads to divide the width 128, got 3");
  CHECK(refusal({.dropout = 1}) == "Gpt: expected dropout in [0, 1), got 1");
  CHECK_THROWS_WITH_AS(models::preset("nanogpt", 65), doctest::Contains("expected tiny, nano-cpu"),
                       ConfigError);
  models::Gpt gpt({.vocabulary = 11, .block_size = 8, .layers = 1, .heads = 2, .width = 16});
  nn::materialize(gpt, cpu(), 4);
  CHECK_THROWS_WITH_AS(gpt(Tensor::from<int64_t>({1, 11}, {1, 2})), doctest::Contains("wte"), IndexError);
  CHECK_THROWS_AS(gpt(Tensor::zeros({1, 9}, i64)), ShapeError);
}

TEST_CASE("gpt: the loss and cached decoding run the hooks of every module that they compute with") {
  models::Gpt gpt({.vocabulary = 11, .block_size = 8, .layers = 1, .heads = 2, .width = 16});
  nn::materialize(gpt, cpu(), 4);
  std::map<std::string, int> calls;
  gpt.for_each([&](nn::Module& module) {
    module.register_forward_hook([&](nn::Module& called, const nn::CallVariables&, const nn::CallVariables&) {
      ++calls[called.full_name()];
    });
  });
  const Tensor ids = Tensor::from<int64_t>({1, 5, 9}, {1, 3});
  gpt.loss(ids, ids);
  std::map<std::string, int> expected;
  for (const char* name : {"", "wpe", "blocks", "blocks.0", "blocks.0.ln_1", "blocks.0.attn",
                           "blocks.0.attn.c_attn", "blocks.0.attn.c_proj", "blocks.0.ln_2", "blocks.0.mlp",
                           "blocks.0.mlp.fc", "blocks.0.mlp.proj", "ln_f"})
    expected[name] = 1;
  expected["wte"] = 2;  // the embedding, and the tied head
  CHECK(calls == expected);
  calls.clear();
  models::GptCache cache = gpt.make_cache(1);
  gpt.forward_cached(ids, cache);
  expected.erase("blocks");           // its blocks are called one by one
  expected["blocks.0.mlp.drop"] = 1;  // not applied in the pass of an addition
  CHECK(calls == expected);
}

TEST_CASE("gpt: gradients with dropout are those of the batch for any split into micro-batches") {
  models::Gpt gpt({.vocabulary = 11, .block_size = 8, .layers = 2, .heads = 2, .width = 16, .dropout = 0.3});
  gpt.to(f64);
  nn::materialize(gpt, cpu(), 3);
  const Tensor x = Tensor::empty({4, 8}, i64), y = Tensor::empty({4, 8}, i64);
  for (int64_t i = 0; i < 32; ++i) {
    x.data<int64_t>()[i] = i * 7 % 11;
    y.data<int64_t>()[i] = i * 5 % 11;
  }
  const std::vector<int64_t> samples{0, 1, 2, 3};
  const auto gradient = [&](int64_t micro) {
    gpt.zero_grad();
    for (int64_t first = 0; first < 4; first += micro) {
      begin_random_step(9, 5, std::span(samples).subspan(first, micro));
      const Variable loss =
          cross_entropy(gpt(x.narrow(0, first, micro)), y.narrow(0, first, micro).contiguous());
      (loss * (static_cast<double>(micro) / 4)).backward();
    }
    return gpt.wte.weight.grad().value();
  };
  const Tensor batch = gradient(4), repeated = gradient(4), split = gradient(1);
  for (int64_t i = 0; i < batch.numel(); ++i) {
    CHECK(batch.data<double>()[i] == repeated.data<double>()[i]);
    CHECK(split.data<double>()[i] == doctest::Approx(batch.data<double>()[i]).epsilon(1e-10));
  }
}

TEST_CASE("gpt: recomputing every block, dropout included, gives the bits of saving all activations") {
  models::Gpt gpt({.vocabulary = 11, .block_size = 8, .layers = 3, .heads = 2, .width = 16, .dropout = 0.2});
  nn::materialize(gpt, cpu(), 3);
  const Tensor ids = Tensor::zeros({2, 8}, i64);
  const auto run = [&](bool recompute) {
    gpt.zero_grad();
    begin_random_step(1, 2, {});
    Variable x = gpt.drop(gpt.wte(ids));
    for (models::Block& block : gpt.blocks)
      x = recompute ? checkpoint([&block](const Variable& in) { return block(in); }, x) : block(x);
    const int64_t saved = saved_bytes(x);
    const Variable loss = cross_entropy(linear(gpt.ln_f(x), gpt.wte.weight), ids);
    loss.backward();
    return std::tuple(loss.item(), saved, gpt.blocks[0].attn.c_attn.weight.grad().value().clone());
  };
  const auto [loss, saved, gradient] = run(false);
  const auto [recomputed_loss, recomputed_saved, recomputed_gradient] = run(true);
  CHECK(loss == recomputed_loss);
  CHECK(recomputed_saved * 4 < saved);
  for (int64_t i = 0; i < gradient.numel(); ++i)
    CHECK(gradient.data<float>()[i] == recomputed_gradient.data<float>()[i]);
}

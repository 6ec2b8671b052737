// usage: char_gpt [STEPS] [FILE]: trains a GPT of characters on a text, by default a built-in one, and
// samples from it. The same by a hand-written loop: char_gpt_by_hand.cpp.
#include <tessera/dist/train/trainer/trainer.h>
#include <tessera/tessera.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace tessera;

struct GptOptions {
  int64_t vocabulary = 0, block = 64, layers = 4, heads = 4, width = 128;
  double dropout = 0.1;
};

/// x + attention(norm(x)), then + mlp(norm(x)). x (B, T, C).
struct Block : nn::Layer<Block, GptOptions> {
  nn::LayerNorm& ln_1 = add<nn::LayerNorm>("ln_1", o.width);
  nn::CausalSelfAttention& attention =
      add<nn::CausalSelfAttention>("attention", {.width = o.width, .heads = o.heads, .dropout = o.dropout});
  nn::LayerNorm& ln_2 = add<nn::LayerNorm>("ln_2", o.width);
  nn::Linear& up = add<nn::Linear>("up", {.in = o.width, .out = 4 * o.width});
  nn::Linear& down = add<nn::Linear>("down", {.in = 4 * o.width, .out = o.width});
  nn::Dropout& drop = add<nn::Dropout>("drop", o.dropout);

  explicit Block(GptOptions options) : Layer(options) {}
  Variable forward(const Variable& x) const {
    const Variable h = x + attention(ln_1(x));
    return h + drop(down(nn::gelu(up(ln_2(h)))));
  }
};

/// Ids of characters (B, T) to logits (B, T, V). The table of the tokens is the head's weight too.
struct Gpt : nn::Layer<Gpt, GptOptions> {
  nn::Embedding& tokens = add<nn::Embedding>("tokens", {.count = o.vocabulary, .width = o.width});
  nn::Embedding& positions = add<nn::Embedding>("positions", {.count = o.block, .width = o.width});
  nn::ModuleList<Block>& blocks = add<nn::ModuleList<Block>>("blocks");
  nn::LayerNorm& norm = add<nn::LayerNorm>("norm", o.width);

  explicit Gpt(GptOptions options) : Layer(options) {
    for (int64_t i = 0; i < o.layers; ++i) blocks.push(o);
  }
  Variable forward(const Tensor& ids) const {
    const Variable x = tokens(ids) + positions(arange(ids.size(1)));  // (B, T, C) + (T, C)
    return tokens.logits(norm(blocks(x)));
  }
};

/// Every window of `block` characters, and for each character the one after it.
struct Windows : data::Dataset {
  Tensor ids;
  int64_t block;
  Windows(const data::Tokens& text, int64_t length)
      : ids(tensor(std::vector<int64_t>(text.begin(), text.end()))), block(length) {}
  int64_t size() const override { return ids.size(0) - block; }
  data::Example get(int64_t i) const override {
    return {ids.slice(0, i, i + block), ids.slice(0, i + 1, i + 1 + block)};
  }
};

/// Characters drawn one after another, each from the model's probabilities after those before it.
std::string sample(Gpt& gpt, const data::CharacterVocabulary& vocabulary, int64_t count) {
  const NoGrad no_grad;
  gpt.eval();
  manual_seed(1);
  std::string text;
  Tensor ids = zeros({1, 1}, i64);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t seen = std::min(ids.size(1), gpt.o.block);
    const Tensor logits = gpt(ids.narrow(1, ids.size(1) - seen, seen)).value().select(1, -1);  // (1, V)
    const Tensor next = multinomial(softmax(logits, -1), 1);
    text += vocabulary.decode(next.item_i64());
    ids = cat({ids, next}, 1);
  }
  return text;
}

/// What is trained, and how.
struct CharGpt : training::Task {
  Gpt gpt;
  explicit CharGpt(GptOptions options) : gpt(options) {}
  nn::Module& module() override { return gpt; }

  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy(gpt(batch.x), batch.y);
    log("loss", loss);
    return loss;
  }
  training::OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::AdamW>(parameters, 1e-3)};
  }
};

/// Prints the loss ten times in a run.
struct Progress : training::Callback {
  void on_train_batch_end(training::Trainer& trainer, training::Task&, const data::Batch&, int64_t) override {
    const int64_t step = trainer.global_step(), steps = trainer.options().max_steps;
    if (trainer.rank() == 0 && step % std::max<int64_t>(steps / 10, 1) == 0)
      std::printf("step %4d  loss %.6f\n", static_cast<int>(step), trainer.logged().at("loss"));
  }
};

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoi(argv[1]) : 1000;
  const std::string file = argc > 2 ? argv[2] : "";
  return dist::launch([&](dist::World& world) {  // once on each rank: mpirun -n 2 char_gpt
    const data::Corpus corpus =
        data::open_corpus({.dataset = file.empty() ? "builtin" : "text", .data = file});
    CharGpt task({.vocabulary = corpus.vocabulary_size});
    training::Loaders data(
        {std::make_shared<Windows>(corpus.train, task.gpt.o.block), {.batch_size = 12, .shuffle = true}});
    training::Trainer trainer({.max_steps = steps,
                               .strategy = "full_shard",
                               .gradient_clip = 1.0,
                               .callbacks = {std::make_shared<Progress>()},
                               .units = dist::every<Block>(),
                               .world = &world});
    trainer.fit(task, data);
    const std::string text = sample(task.gpt, *corpus.vocabulary, 200);
    if (world.rank() == 0) std::printf("%s\n", text.c_str());
  });
}

// usage: char_gpt_by_hand [STEPS] [FILE]: char_gpt.cpp without dist/train: the loop is written here.
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

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoi(argv[1]) : 1000;
  const std::string file = argc > 2 ? argv[2] : "";
  const data::Corpus corpus = data::open_corpus({.dataset = file.empty() ? "builtin" : "text", .data = file});
  Gpt gpt({.vocabulary = corpus.vocabulary_size});
  nn::materialize(gpt, cpu(), /*seed=*/42);
  optim::AdamW optimizer(gpt.parameters(), 1e-3);
  data::DataLoader loader(Windows(corpus.train, gpt.o.block),
                          {.batch_size = 12, .shuffle = true, .seed = 42});
  for (int64_t step = 0; step < steps;)  // epoch after epoch
    for (auto& [ids, targets] : loader) {
      const Variable loss = nn::cross_entropy(gpt(ids), targets);
      loss.backward();
      optim::clip_grad_norm(gpt.parameters(), 1.0);
      optimizer.step();
      optimizer.zero_grad();
      if (++step % std::max<int64_t>(steps / 10, 1) == 0)
        std::printf("step %4d  loss %.6f\n", static_cast<int>(step), loss.item());
      if (step == steps) break;
    }
  std::printf("%s\n", sample(gpt, *corpus.vocabulary, 200).c_str());
}

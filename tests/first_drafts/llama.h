// clang-format off
#pragma once
#include <tessera/tessera.h>
using namespace tessera;
struct Config { int64_t vocab = 65, dim = 128, layers = 4, heads = 4, kv_heads = 2, hidden = 344, block = 128; };
struct Attention : nn::Layer<Attention> {
  Config c; int64_t hd = c.dim / c.heads;
  nn::Linear& wq = add<nn::Linear>("wq", {.in = c.dim, .out = c.heads * hd, .bias = false});
  nn::Linear& wk = add<nn::Linear>("wk", {.in = c.dim, .out = c.kv_heads * hd, .bias = false});
  nn::Linear& wv = add<nn::Linear>("wv", {.in = c.dim, .out = c.kv_heads * hd, .bias = false});
  nn::Linear& wo = add<nn::Linear>("wo", {.in = c.heads * hd, .out = c.dim, .bias = false});
  Variable& cos_table = buffer("cos", ops::cos(angles(c)));
  Variable& sin_table = buffer("sin", ops::sin(angles(c)));
  explicit Attention(Config config) : c(config) {}
  static Tensor angles(Config c) {
    Tensor inv = ops::pow(10000.0, -ops::arange(0.0, 32.0, 2.0) / 32);
    Tensor t = ops::arange(c.block, f32);
    return ops::outer(t, inv);
  }
  Variable rope(const Variable& x) {
    auto [x1, x2] = chunk<2>(x, -1);
    return cat({x1 * cos_table - x2 * sin_table, x2 * cos_table + x1 * sin_table}, -1);
  }
  Variable forward(const Variable& x) {
    auto [B, T, C] = x.dims<3>();
    Variable q = wq(x).view({B, T, c.heads, hd}).transpose(1, 2);
    Variable k = wk(x).view({B, T, c.kv_heads, hd}).transpose(1, 2);
    Variable v = wv(x).view({B, T, c.kv_heads, hd}).transpose(1, 2);
    q = rope(q); k = rope(k);
    Variable y = nn::scaled_dot_product_attention(q, k, v, {.causal = true, .enable_gqa = true});
    return wo(y.transpose(1, 2).reshape({B, T, C}));
  }
};
struct Mlp : nn::Layer<Mlp> {
  Config c;
  nn::Linear& w1 = add<nn::Linear>("w1", {.in = c.dim, .out = c.hidden, .bias = false});
  nn::Linear& w2 = add<nn::Linear>("w2", {.in = c.hidden, .out = c.dim, .bias = false});
  nn::Linear& w3 = add<nn::Linear>("w3", {.in = c.dim, .out = c.hidden, .bias = false});
  explicit Mlp(Config config) : c(config) {}
  Variable forward(const Variable& x) { return w2(nn::silu(w1(x)) * w3(x)); }
};
struct Block : nn::Layer<Block> {
  Config c;
  nn::RMSNorm& n1 = add<nn::RMSNorm>("n1", c.dim);
  Attention& attn = add<Attention>("attn", c);
  nn::RMSNorm& n2 = add<nn::RMSNorm>("n2", c.dim);
  Mlp& mlp = add<Mlp>("mlp", c);
  explicit Block(Config config) : c(config) {}
  Variable forward(const Variable& x) { Variable h = x + attn(n1(x)); return h + mlp(n2(h)); }
};
struct Llama : nn::Layer<Llama> {
  Config c;
  nn::Embedding& tok = add<nn::Embedding>("tok", {c.vocab, c.dim});
  nn::ModuleList<Block>& blocks = add<nn::ModuleList<Block>>("blocks");
  nn::RMSNorm& norm = add<nn::RMSNorm>("norm", c.dim);
  nn::Linear& head = add<nn::Linear>("head", {.in = c.dim, .out = c.vocab, .bias = false});
  explicit Llama(Config config) : c(config) { for (int i = 0; i < c.layers; ++i) blocks.push(c); }
  Variable forward(const Tensor& ids) { return head(norm(blocks(tok(ids)))); }
};

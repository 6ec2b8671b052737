// clang-format off
#pragma once
#include <tessera/tessera.h>
#include <cmath>
#include <random>
using namespace tessera;

struct Spirals : data::Dataset {
  std::vector<float> xs; std::vector<int64_t> ys;
  explicit Spirals(int64_t n, unsigned seed) {
    std::mt19937 g(seed); std::normal_distribution<float> noise(0, 0.1f); std::uniform_real_distribution<float> u(0, 1);
    for (int64_t i = 0; i < n; ++i) {
      int64_t c = i % 2; float r = 0.3f + 2.7f * u(g), t = 3.f * r + 3.14159f * c;
      xs.push_back(r * std::cos(t) + noise(g)); xs.push_back(r * std::sin(t) + noise(g)); ys.push_back(c);
    }
  }
  int64_t size() const override { return int64_t(ys.size()); }
  data::Example get(int64_t i) const override {
    return {Tensor::from({xs[2 * i], xs[2 * i + 1]}), Tensor::scalar(ys[i])};
  }
};
struct Net : nn::Layer<Net> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 2, .out = 64});
  nn::Linear& b = add<nn::Linear>("b", {.in = 64, .out = 64});
  nn::Linear& c = add<nn::Linear>("c", {.in = 64, .out = 2});
  Variable forward(const Variable& x) { return c(nn::relu(b(nn::relu(a(x))))); }
};

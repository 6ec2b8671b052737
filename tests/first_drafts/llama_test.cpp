// `int main() {` becomes a function that needs no return.
#define main()     \
  declared_only(); \
  void construct()
#include "tests/first_drafts/llama.cpp"  // NOLINT(bugprone-suspicious-include)
#undef main

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

namespace {

const Config small{.vocab = 17, .dim = 64, .layers = 2, .heads = 2, .kv_heads = 1, .hidden = 96, .block = 16};

/// Element i of parameter k is 0.2 sin(0.37 i^2 + k), in norms 1 more: as in the script of the golden.
void set_parameters(const Llama& model) {
  int k = 0;
  for (const auto& [name, p] : model.named_parameters()) {
    for (int64_t n = 0; n < p.numel(); ++n) {
      const auto i = static_cast<double>(n);
      p.value().data<float>()[n] = static_cast<float>((p.dim() == 1) + 0.2 * std::sin(0.37 * i * i + k));
    }
    ++k;
  }
}

/// Ids (batch, block + 1) of a text in which each id determines the next.
Tensor text_of(int64_t batch, int64_t start) {
  const Tensor ids = Tensor::empty({batch, small.block + 1}, i64);
  for (int64_t b = 0; b < batch; ++b) {
    int64_t id = (start + 3 * b) % 17;
    for (int64_t t = 0; t <= small.block; ++t) {
      ids.data<int64_t>()[b * (small.block + 1) + t] = id;
      id = (id + (id % 3 != 0 ? 1 : 5)) % 17;
    }
  }
  return ids;
}

Tensor inputs(const Tensor& ids) {
  return ids.narrow(1, 0, small.block);
}

Variable loss_of(Llama& model, const Tensor& ids) {
  return nn::cross_entropy(model(inputs(ids)), ids.narrow(1, 1, small.block));
}

/// The lines of llama_golden.txt: a name and values.
std::map<std::string, std::vector<double>> golden() {
  std::map<std::string, std::vector<double>> lines;
  std::ifstream file(TESSERA_TEST_DATA_DIR "/first_drafts/llama_golden.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (double value = 0; words >> value;) lines[name].push_back(value);
  }
  return lines;
}

}  // namespace

TEST_CASE("first drafts: the LLaMA-like model is made") {
  construct();
}

TEST_CASE("first drafts: logits, loss and gradients of the LLaMA-like model are PyTorch's") {
  Llama model(small);
  nn::materialize(model, cpu(), 1);
  set_parameters(model);
  const auto expected = golden();
  const Tensor ids = text_of(2, 0);
  const Tensor logits = model(inputs(ids)).value().contiguous();
  const std::vector<double>& theirs = expected.at("logits");
  REQUIRE(logits.numel() == static_cast<int64_t>(theirs.size()));
  // Theirs in f64, ours in f32: sums of up to 96 terms through two layers.
  for (size_t i = 0; i < theirs.size(); ++i) CHECK(std::abs(logits.data<float>()[i] - theirs[i]) < 2e-4);
  const Variable loss = loss_of(model, ids);
  CHECK(loss.item() == doctest::Approx(expected.at("loss")[0]).epsilon(1e-5));
  loss.backward();
  CHECK(model.named_parameters().size() + 2 == expected.size());
  for (auto& [name, p] : model.named_parameters()) {
    const std::string& parameter = name;  // clang 14 captures no structured binding
    CAPTURE(parameter);
    CHECK(norm(p.grad()).item() == doctest::Approx(expected.at(name)[0]).epsilon(1e-4));
  }
}

TEST_CASE("first drafts: the LLaMA-like model learns a text") {
  Llama model(small);
  nn::materialize(model, cpu(), 1);
  optim::AdamW adam(model.parameters(), 3e-3);
  std::vector<double> losses;
  for (int step = 0; step <= 60; ++step) {
    const Variable loss = loss_of(model, text_of(8, step));
    adam.zero_grad();
    loss.backward();
    adam.step();
    losses.push_back(loss.item());
  }
  CHECK(losses.front() > 2.5);  // log 17 is 2.83
  CHECK(losses.back() < 0.05);
}

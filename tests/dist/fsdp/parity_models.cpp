#include "tests/dist/fsdp/parity_models.h"

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/view.h"
#include "models/encoder_classifier.h"
#include "models/gpt.h"
#include "nn/checkpoint_modules.h"
#include "nn/layers/containers.h"
#include "nn/layers/convolution.h"
#include "nn/layers/images/channel_norms.h"
#include "nn/layers/linear.h"
#include "nn/layers/recurrent/recurrent.h"
#include "nn/parametrize/norms.h"

namespace tessera::test {
namespace {

constexpr int64_t C = parity_width;

struct MixerOptions {
  const Variable* shared = nullptr;  ///< a weight of another module
  bool unused = false;               ///< has a parameter that nothing reads
};

/// x + gelu(x W^T + b).
struct Mixer : nn::Layer<Mixer> {
  using Options = MixerOptions;
  Options o;
  Variable& weight =
      o.shared ? share_parameter("weight", *o.shared) : parameter("weight", {C, C}, init::normal(0.4));
  Variable* idle = o.unused ? &parameter("idle", {3, C}, init::normal(1)) : nullptr;
  Variable& bias = parameter("bias", {C}, init::normal(0.2));

  explicit Mixer(Options options) : o(options) {}
  std::string kind() const override { return "Mixer"; }
  Variable forward(const Variable& x) { return x + gelu(linear(x, weight, bias)); }
};

/// x times a factor, or the sum of two such products: a unit of one element, or of two.
struct Scale : nn::Layer<Scale> {
  Variable& factor;
  Variable* second;

  explicit Scale(bool with_second)
      : factor(parameter("factor", {1}, init::normal(0.1, 1))),
        second(with_second ? &parameter("second", {1}, init::normal(0.1, 1)) : nullptr) {}
  std::string kind() const override { return "Scale"; }
  Variable forward(const Variable& x) { return second ? x * factor + x * *second : x * factor; }
};

dist::UnitPolicy mixers() {
  return dist::units_where(
      [](const nn::Module& module) { return module.kind() == "Mixer" || module.kind() == "Scale"; });
}

/// in, three mixers, out: the base of most models below.
struct Row : ParityModel {
  nn::Linear& in = add<nn::Linear>("in", {.in = C, .out = C, .weight_init = init::normal(0.4)});
  Mixer& first;
  Mixer& middle;
  Mixer& last;
  nn::Linear& out = add<nn::Linear>("out", {.in = C, .out = C, .weight_init = init::normal(0.4)});

  explicit Row(bool share = false, bool unused = false)
      : first(add<Mixer>("first", {})),
        middle(add<Mixer>("middle", {.unused = unused})),
        last(add<Mixer>("last", {.shared = share ? &first.weight : nullptr})) {}
  Variable forward(const Variable& x, const Tensor&, int64_t) override {
    return out(last(middle(first(in(x)))));
  }
};

struct Frozen : Row {
  Frozen() {
    first.set_requires_grad(false);
    middle.bias.set_requires_grad(false);
    out.weight.set_requires_grad(false);
  }
};

struct Skipped : Row {
  Variable forward(const Variable& x, const Tensor&, int64_t step) override {
    const Variable h = first(in(x));
    return out(last(step % 2 == 0 ? middle(h) : h));
  }
};

struct Twice : Row {
  Variable forward(const Variable& x, const Tensor&, int64_t) override {
    return out(last(middle(middle(first(in(x))))));
  }
};

struct Unused : Row {
  Variable& idle = parameter("idle", {7}, init::normal(1));
  Unused() : Row(false, true) {}
};

struct Branched : Row {
  Variable forward(const Variable& x, const Tensor&, int64_t) override {
    const Variable h = in(x);
    return out(last(first(h) + middle(h)));
  }
};

/// Two results that share a factor and have a weight each.
struct Fork : nn::Layer<Fork> {
  Variable& gain = parameter("gain", {C}, init::normal(0.1, 1));
  Variable& left = parameter("left", {C, C}, init::normal(0.4));
  Variable& right = parameter("right", {C, C}, init::normal(0.4));
  std::string kind() const override { return "Mixer"; }
  std::pair<Variable, Variable> forward(const Variable& x) {
    return {linear(x * gain, left, {}), linear(x * gain, right, {})};
  }
};

struct Partial : ParityModel {
  nn::Linear& in = add<nn::Linear>("in", {.in = C, .out = C, .weight_init = init::normal(0.4)});
  Fork& fork = add<Fork>("fork");
  Mixer& last = add<Mixer>("last", MixerOptions{});
  int64_t calls = 0;
  Variable forward(const Variable& x, const Tensor&, int64_t) override {
    const auto [left, right] = fork(in(x));
    return last(calls++ % 2 == 0 ? left + right : left);
  }
};

/// Two mixers and a factor.
struct Pair : nn::Layer<Pair> {
  Mixer& a = add<Mixer>("a", MixerOptions{});
  Variable& gain = parameter("gain", {C}, init::normal(0.1, 1));
  Mixer& b = add<Mixer>("b", MixerOptions{});
  std::string kind() const override { return "Pair"; }
  Variable forward(const Variable& x) { return b(a(x) * gain); }
};

struct Nested : ParityModel {
  struct Outer : nn::Layer<Outer> {
    Pair& pair = add<Pair>("pair");
    Variable& shift = parameter("shift", {C}, init::normal(0.1));
    std::string kind() const override { return "Outer"; }
    Variable forward(const Variable& x) { return pair(x + shift); }
  };
  Outer& outer = add<Outer>("outer");
  Pair& pair = add<Pair>("pair");
  nn::Linear& out = add<nn::Linear>("out", {.in = C, .out = C, .weight_init = init::normal(0.4)});
  Variable forward(const Variable& x, const Tensor&, int64_t) override { return out(pair(outer(x))); }
};

struct Uneven : ParityModel {
  Scale& one = add<Scale>("one", false);
  Mixer& mixer = add<Mixer>("mixer", MixerOptions{});
  Scale& two = add<Scale>("two", true);
  Variable& shift = parameter("shift", {1}, init::normal(0.1));
  Variable forward(const Variable& x, const Tensor&, int64_t) override { return two(mixer(one(x))) + shift; }
};

struct TinyGpt : ParityModel {
  models::Gpt& gpt = add<models::Gpt>(
      "gpt", {.vocabulary = 3, .block_size = 2, .layers = 2, .heads = 2, .width = 4, .bias = true});
  Variable forward(const Variable&, const Tensor& ids, int64_t) override {
    return reshape(gpt(ids), {ids.size(0), C});  // (B, T, V)
  }
};

struct TinyLstm : ParityModel {
  nn::LSTM& both = add<nn::LSTM>(
      "both", {.input_size = C / 2, .hidden_size = 5, .batch_first = true, .bidirectional = true});
  nn::LSTM& deep = add<nn::LSTM>("deep", {.input_size = 10,
                                          .hidden_size = 4,
                                          .num_layers = 2,
                                          .bias = false,
                                          .batch_first = true,
                                          .proj_size = 3});
  nn::Linear& out = add<nn::Linear>("out", {.in = C, .out = C, .weight_init = init::normal(0.4)});
  explicit TinyLstm(bool checkpointed) {
    if (checkpointed) nn::checkpoint_every<nn::LSTM>(*this);
  }
  Variable forward(const Variable& x, const Tensor&, int64_t) override {
    const Variable steps = reshape(x, {x.size(0), 2, C / 2});  // (B, T, I)
    const nn::LstmOutput first = both(steps);
    return out(reshape(deep(first.output).output, {x.size(0), C}));
  }
};

/// (B, 1, 2, 3) to (B, 18).
struct Backbone : nn::Layer<Backbone> {
  nn::Conv2d& first =
      add<nn::Conv2d>("first", {.in_channels = 1, .out_channels = 4, .kernel_size = 2, .padding = 1});
  nn::GroupNorm& norm = add<nn::GroupNorm>("norm", {.num_groups = 2, .num_channels = 4});
  nn::Conv2d& second = add<nn::Conv2d>("second", {.in_channels = 4, .out_channels = 3, .kernel_size = 2});
  std::string kind() const override { return "Backbone"; }
  Variable forward(const Variable& x) { return reshape(second(gelu(norm(first(x)))), {x.size(0), 18}); }
};

struct TinyConvolutions : ParityModel {
  Backbone& backbone = add<Backbone>("backbone");
  nn::Linear& values = add<nn::Linear>("values", {.in = 18, .out = C});
  nn::Linear& gates = add<nn::Linear>("gates", {.in = 18, .out = C});
  explicit TinyConvolutions(bool frozen_backbone) { backbone.set_requires_grad(!frozen_backbone); }
  Variable forward(const Variable& x, const Tensor&, int64_t) override {
    const Variable features = backbone(reshape(x, {x.size(0), 1, 2, C / 2}));
    return values(features) * gelu(gates(features));
  }
};

struct TinyEncoder : ParityModel {
  models::EncoderClassifier& encoder = add<models::EncoderClassifier>("encoder", {.vocabulary = 3,
                                                                                  .embed_dim = 4,
                                                                                  .hidden_dim = 5,
                                                                                  .max_len = 2,
                                                                                  .num_heads = 2,
                                                                                  .num_layers = 2,
                                                                                  .dropout = 0,
                                                                                  .classes = C});
  explicit TinyEncoder(bool checkpointed) {
    if (checkpointed) nn::checkpoint_every<nn::TransformerEncoderLayer>(*this);
  }
  Variable forward(const Variable&, const Tensor& ids, int64_t) override { return encoder(ids); }
};

struct Normed : ParityModel {
  nn::Linear& first = nn::weight_norm(add<nn::Linear>("first", {.in = C, .out = C}));
  nn::Linear& second = nn::spectral_norm(add<nn::Linear>("second", {.in = C, .out = C}));
  nn::Linear& last = nn::spectral_norm(add<nn::Linear>("last", {.in = C, .out = C}));
  Normed() { nn::weight_norm(last, {.name = "bias", .dim = {}}).set_checkpointed(true); }
  Variable forward(const Variable& x, const Tensor&, int64_t) override {
    return last(gelu(second(gelu(first(x)))));
  }
};

template <class M, class... Args>
ModelMaker maker(dist::UnitPolicy units, Args... args) {
  return {[args...]() -> std::unique_ptr<ParityModel> { return std::make_unique<M>(args...); },
          std::move(units)};
}

}  // namespace

ModelMaker plain_model() {
  return maker<Row>(mixers());
}
ModelMaker shared_model() {
  return maker<Row>(mixers(), true);
}
ModelMaker frozen_model() {
  return maker<Frozen>(mixers());
}
ModelMaker nested_model() {
  return maker<Nested>(dist::units_where([](const nn::Module& module) {
    return module.kind() == "Mixer" || module.kind() == "Pair" || module.kind() == "Outer";
  }));
}
ModelMaker uneven_model() {
  return maker<Uneven>(mixers());
}
ModelMaker skipped_model() {
  return maker<Skipped>(mixers());
}
ModelMaker twice_model() {
  return maker<Twice>(mixers());
}
ModelMaker unused_model() {
  return maker<Unused>(mixers());
}
ModelMaker branched_model() {
  return maker<Branched>(mixers());
}
ModelMaker partial_model() {
  return maker<Partial>(mixers());
}
ModelMaker lstm_model(bool checkpointed) {
  return maker<TinyLstm>(dist::every<nn::LSTM>(), checkpointed);
}
ModelMaker gpt_model() {
  return maker<TinyGpt>(dist::every<models::Block>());
}
ModelMaker convolution_model(bool frozen_backbone) {
  return maker<TinyConvolutions>(dist::every<Backbone>(), frozen_backbone);
}
ModelMaker normed_model() {
  return maker<Normed>(dist::every<nn::Linear>());
}
ModelMaker encoder_model(bool checkpointed) {
  return maker<TinyEncoder>(dist::every<nn::TransformerEncoderLayer>(), checkpointed);
}

}  // namespace tessera::test

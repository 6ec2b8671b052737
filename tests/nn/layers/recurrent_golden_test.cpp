// LSTM, GRU, RNN and their cells against PyTorch's: results and all gradients, in f64 and in f32.
// make_recurrent_goldens.py records them.

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>

#include "nn/layers/recurrent/cells.h"
#include "nn/layers/recurrent/recurrent.h"
#include "nn/materialize.h"
#include "tensor/io/safetensors.h"
#include "tests/ops/golden.h"

using namespace tessera;

namespace {

const io::SafetensorsFile& goldens() {
  static const io::SafetensorsFile file(TESSERA_TEST_DATA_DIR "/nn/goldens/recurrent.safetensors");
  return file;
}

/// One variant: its module, and what it computes.
struct Variant {
  std::string name;
  test::Arguments options;
  DType dtype;

  int64_t integer(const std::string& key, int64_t otherwise) const {
    return options.has(key) ? options.integer(key) : otherwise;
  }
  bool flag(const std::string& key, bool otherwise) const {
    return options.has(key) ? options.flag(key) : otherwise;
  }
  /// The recorded tensor, undefined where there is none.
  Tensor value(const std::string& key) const {
    const std::string full = name + "/" + key;
    if (!goldens().find(full)) return {};
    const Tensor x = goldens().read(full);
    return x.dtype() == f64 ? x.to(dtype) : x;
  }
  Variable leaf(const std::string& key) const {
    const Tensor x = value(key);
    return x.defined() ? Variable::leaf(x) : Variable();
  }
  template <class Options>
  Options layer_options() const {
    Options o;
    o.input_size = 2;
    o.hidden_size = 3;
    o.bias = flag("bias", true);
    if constexpr (requires { o.num_layers; }) {
      o.num_layers = integer("num_layers", 1);
      o.batch_first = flag("batch_first", false);
      o.bidirectional = flag("bidirectional", false);
    }
    if constexpr (requires { o.proj_size; }) o.proj_size = integer("proj_size", 0);
    if constexpr (requires { o.nonlinearity; })
      if (options.has("nonlinearity")) o.nonlinearity = options.text("nonlinearity");
    return o;
  }
};

void check_close(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  CAPTURE(what);
  REQUIRE(got.shape() == expected.shape());
  const Tensor a = got.to(f64).contiguous(), b = expected.to(f64).contiguous();
  for (int64_t i = 0; i < a.numel(); ++i)
    CHECK(a.data<double>()[i] == doctest::Approx(b.data<double>()[i]).epsilon(tolerance).scale(1));
}

/// y (padded where sequences were packed), h_n and c_n.
struct Outputs {
  Variable y, h_n, c_n;
};

/// Compares results and gradients of `run(module, x, h0, c0, packed)` with the golden.
template <class Module, class Run>
void check(const Variant& v, const Run& run) {
  CAPTURE(v.name);
  const double tolerance = v.dtype == f64 ? 1e-12 : 2e-5;
  Module module(v.layer_options<typename Module::Options>());
  module.to(v.dtype);
  nn::materialize(module, cpu(), 1);
  size_t parameters = 0;
  for (const auto& [name, parameter] : module.named_parameters()) {
    const Tensor values = v.value("param/" + name);
    REQUIRE_MESSAGE(values.defined(), name);
    parameter.value().copy_from(values);
    ++parameters;
  }
  size_t recorded = 0;
  for (const auto& entry : goldens().entries()) recorded += entry.name.starts_with(v.name + "/param/");
  CHECK(parameters == recorded);

  const Variable x = v.leaf("x"), h0 = v.leaf("h0"), c0 = v.leaf("c0");
  const Outputs out = run(module, x, h0, c0);
  std::vector<Variable> roots, gradients;
  const std::pair<const char*, Variable> results[] = {{"y", out.y}, {"h_n", out.h_n}, {"c_n", out.c_n}};
  for (const auto& [name, result] : results) {
    const Tensor expected = v.value(name);
    if (!expected.defined()) continue;
    check_close(result.value(), expected, tolerance, name);
    roots.push_back(result);
    gradients.push_back(v.value(text("d", name)));
  }
  backward(roots, gradients);
  for (const auto& [name, input] : {std::pair<const char*, Variable>{"dx", x}, {"dh0", h0}, {"dc0", c0}})
    if (input.defined()) check_close(input.grad().value(), v.value(name), tolerance, name);
  for (const auto& [name, parameter] : module.named_parameters())
    check_close(parameter.grad().value(), v.value("grad/" + name), tolerance, name);
}

/// Runs `call(input, h0, c0)` on x, packed where the variant has lengths.
template <class Module, class StateOf>
void check_layer(const Variant& v, const StateOf& state_of) {
  const bool batch_first = v.flag("batch_first", false);
  check<Module>(v, [&](Module& module, const Variable& x, const Variable& h0, const Variable& c0) -> Outputs {
    const Tensor lengths = v.value("lengths");
    const auto results = [&](const Variable& y, const auto& result) -> Outputs {
      if constexpr (requires { result.state; })
        return {y, result.state.h, result.state.c};
      else
        return {y, result.h_n, {}};
    };
    if (!lengths.defined()) {
      const auto result = module(x, state_of(h0, c0));
      return results(result.output, result);
    }
    const auto result = module(nn::pack_padded_sequence(x, lengths, batch_first, false), state_of(h0, c0));
    return results(nn::pad_packed_sequence(result.output, batch_first).first, result);
  });
}

void check(const Variant& v) {
  const std::string kind = v.options.text("kind");
  const auto h_alone = [](const Variable& h, const Variable&) { return h; };
  const auto both = [](const Variable& h, const Variable& c) { return nn::LstmState{h, c}; };
  if (kind == "lstm") check_layer<nn::LSTM>(v, both);
  if (kind == "gru") check_layer<nn::GRU>(v, h_alone);
  if (kind == "rnn") check_layer<nn::RNN>(v, h_alone);
  if (kind == "lstm_cell")
    check<nn::LSTMCell>(v,
                        [](auto& cell, const Variable& x, const Variable& h, const Variable& c) -> Outputs {
                          const nn::LstmState next = cell(x, nn::LstmState{h, c});
                          return {{}, next.h, next.c};
                        });
  const auto one = [](auto& cell, const Variable& x, const Variable& h, const Variable&) -> Outputs {
    return {{}, cell(x, h), {}};
  };
  if (kind == "gru_cell") check<nn::GRUCell>(v, one);
  if (kind == "rnn_cell") check<nn::RNNCell>(v, one);
}

}  // namespace

TEST_CASE("recurrent: results and gradients of every variant are PyTorch's, in f64 and f32") {
  CHECK(goldens().metadata().size() == 26);
  for (const auto& [name, options] : goldens().metadata())
    for (const DType dtype : {f64, f32}) check({name, test::Arguments(options), dtype});
}

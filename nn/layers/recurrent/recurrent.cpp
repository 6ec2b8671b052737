#include "nn/layers/recurrent/recurrent.h"

#include "nn/layers/recurrent/nonlinearity.h"

namespace tessera::nn {
namespace {

template <class Options>
RecurrentStack::Settings settings_of(const char* kind, RecurrentCell cell, const Options& o) {
  return {.kind = kind,
          .cell = cell,
          .input_size = o.input_size,
          .hidden_size = o.hidden_size,
          .num_layers = o.num_layers,
          .bias = o.bias,
          .batch_first = o.batch_first,
          .dropout = o.dropout,
          .bidirectional = o.bidirectional};
}

RecurrentStack::Settings lstm_settings(const LstmOptions& o) {
  RecurrentStack::Settings settings = settings_of("nn::LSTM", RecurrentCell::lstm, o);
  settings.proj_size = o.proj_size;
  return settings;
}

}  // namespace

LSTM::LSTM(Options options)
    : Layer(std::move(options)),
      stack_(
          lstm_settings(o),
          [this](const std::string& name, const Shape& shape, const init::Initializer& values) -> Variable& {
            return parameter(name, shape, values);
          }) {}

LstmOutput LSTM::forward(const Variable& x, const LstmState& initial) const {
  const RecurrentStack::Result result = stack_.run(*this, x, initial.h, initial.c);
  return {result.output, {result.h_n, result.c_n}};
}

PackedLstmOutput LSTM::forward(const PackedSequence& x, const LstmState& initial) const {
  const RecurrentStack::PackedResult result = stack_.run(*this, x, initial.h, initial.c);
  return {result.output, {result.h_n, result.c_n}};
}

GRU::GRU(Options options)
    : Layer(std::move(options)),
      stack_(
          settings_of("nn::GRU", RecurrentCell::gru, o),
          [this](const std::string& name, const Shape& shape, const init::Initializer& values) -> Variable& {
            return parameter(name, shape, values);
          }) {}

RecurrentOutput GRU::forward(const Variable& x, const Variable& h0) const {
  const RecurrentStack::Result result = stack_.run(*this, x, h0, {});
  return {result.output, result.h_n};
}

PackedRecurrentOutput GRU::forward(const PackedSequence& x, const Variable& h0) const {
  const RecurrentStack::PackedResult result = stack_.run(*this, x, h0, {});
  return {result.output, result.h_n};
}

RNN::RNN(Options options)
    : Layer(std::move(options)),
      stack_(
          settings_of("nn::RNN", cell_of("nn::RNN", o.nonlinearity), o),
          [this](const std::string& name, const Shape& shape, const init::Initializer& values) -> Variable& {
            return parameter(name, shape, values);
          }) {}

std::string RNN::describe_options() const {
  return text(stack_.describe_options(), ", ", o.nonlinearity);
}

RecurrentOutput RNN::forward(const Variable& x, const Variable& h0) const {
  const RecurrentStack::Result result = stack_.run(*this, x, h0, {});
  return {result.output, result.h_n};
}

PackedRecurrentOutput RNN::forward(const PackedSequence& x, const Variable& h0) const {
  const RecurrentStack::PackedResult result = stack_.run(*this, x, h0, {});
  return {result.output, result.h_n};
}

}  // namespace tessera::nn

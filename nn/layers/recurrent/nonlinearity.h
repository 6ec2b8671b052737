#pragma once  // internal

#include <string>

#include "tensor/arguments/recurrence.h"
#include "tensor/error.h"

namespace tessera::nn {

/// The cell of an RNN with this nonlinearity. Throws ConfigError, naming `where`, for another one.
inline RecurrentCell cell_of(const char* where, const std::string& nonlinearity) {
  require<ConfigError>(nonlinearity == "tanh" || nonlinearity == "relu", where,
                       ": expected a nonlinearity \"tanh\" or \"relu\", got \"", nonlinearity, "\"");
  return nonlinearity == "tanh" ? RecurrentCell::rnn_tanh : RecurrentCell::rnn_relu;
}

}  // namespace tessera::nn

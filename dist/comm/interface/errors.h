#pragma once

#include <string>
#include <utility>

#include "tensor/error.h"

namespace tessera::dist {

/// What ends a program whose ranks no longer work together: gptlite's exit status 5.
struct CommunicationError : Error {
  using Error::Error;
};

/// Ranks that called different collectives, or the same with other sizes, dtypes or units. The message names
/// both sides.
struct MismatchError : CommunicationError {
  using CommunicationError::CommunicationError;
};

/// A rank that is gone, silent, or stuck while others wait. The message names it and, where known, the
/// collective that it was missed in.
struct RankLostError : CommunicationError {
  RankLostError(const std::string& message, int lost) : CommunicationError(message), rank(lost) {}
  int rank;  ///< in the world
};

/// Another rank ended by an exception. The message holds that rank's own.
struct PeerFailedError : CommunicationError {
  PeerFailedError(const std::string& message, int failed) : CommunicationError(message), rank(failed) {}
  int rank;  ///< in the world
};

}  // namespace tessera::dist

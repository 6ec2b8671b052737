#pragma once

#include <string>
#include <utility>

#include "tensor/error.h"

namespace tessera::dist {

/// Ranks no longer work together, which ends the program: gptlite's exit status 5.
struct CommunicationError : Error {
  using Error::Error;
};

/// Ranks called different collectives, or one with other sizes, dtypes or units. The message names both
/// sides.
struct MismatchError : CommunicationError {
  using CommunicationError::CommunicationError;
};

/// A rank has ended, sends no heartbeat, or is stuck while others wait. The message names it and, where
/// known, the collective that waits for it.
struct RankLostError : CommunicationError {
  /// `lost`: the rank that is lost, in the world.
  RankLostError(const std::string& message, int lost) : CommunicationError(message), rank(lost) {}
  int rank;  ///< in the world
};

/// Another rank ended by an exception. The message contains the message of that exception.
struct PeerFailedError : CommunicationError {
  /// `failed`: the rank that ended, in the world.
  PeerFailedError(const std::string& message, int failed) : CommunicationError(message), rank(failed) {}
  int rank;  ///< in the world
};

}  // namespace tessera::dist

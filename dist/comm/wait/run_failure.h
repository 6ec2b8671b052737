#pragma once  // internal

#include <cstdint>
#include <exception>
#include <string>

namespace tessera::dist {

/// Why the run of all ranks ends. The first failure counts; ranks report it to each other.
struct RunFailure {
  enum class Kind : uint8_t {
    exception,   ///< a rank threw it
    lost,        ///< a rank is lost
    mismatched,  ///< ranks made different calls
    broken       ///< the remote thread of this rank failed
  };
  Kind kind = Kind::exception;
  int rank = -1;  ///< the one that caused it, in the world
  std::string message;
};

/// A RunFailure in plain bytes. Written by `encode`, read by `decode` alone. What comes after the message's 0
/// need not be sent.
struct PostedFailure {
  int32_t rank = -1;
  uint8_t kind = 0;
  char message[8187] = {};  ///< its first characters, and a 0
};
static_assert(sizeof(PostedFailure) == 8192);

PostedFailure encode(const RunFailure& failure);
/// Throws CommunicationError where the kind has a value that `encode` never writes.
RunFailure decode(const PostedFailure& posted);
/// The number of bytes up to the message's 0.
int64_t used_bytes(const PostedFailure& posted);

/// Throws what a failure is on the ranks that it ends: PeerFailedError ("rank 1 failed: ..."), RankLostError,
/// MismatchError, or CommunicationError where the remote thread is broken.
[[noreturn]] void throw_failure(const RunFailure& failure);
/// What ended the rank `own`; without a rank (-1) where the rank that caused it reports that itself.
RunFailure failure_of(const std::exception_ptr& reason, int own);

}  // namespace tessera::dist

#include "dist/comm/wait/run_failure.h"

#include <cstddef>
#include <cstring>

#include "dist/comm/interface/errors.h"

namespace tessera::dist {
namespace {

size_t message_length(const PostedFailure& posted) {
  return ::strnlen(posted.message, sizeof posted.message - 1);
}

}  // namespace

PostedFailure encode(const RunFailure& failure) {
  PostedFailure posted;
  posted.rank = failure.rank;
  posted.kind = static_cast<uint8_t>(failure.kind);
  failure.message.copy(posted.message, sizeof posted.message - 1);
  return posted;
}

RunFailure decode(const PostedFailure& posted) {
  require<CommunicationError>(posted.kind <= static_cast<uint8_t>(RunFailure::Kind::broken),
                              "a failure that no rank has: kind ", int{posted.kind});
  return {.kind = static_cast<RunFailure::Kind>(posted.kind),
          .rank = posted.rank,
          .message = std::string(posted.message, message_length(posted))};
}

int64_t used_bytes(const PostedFailure& posted) {
  return static_cast<int64_t>(offsetof(PostedFailure, message) + message_length(posted));
}

void throw_failure(const RunFailure& failure) {
  switch (failure.kind) {
    case RunFailure::Kind::exception:
      throw PeerFailedError(text("rank ", failure.rank, " failed: ", failure.message), failure.rank);
    case RunFailure::Kind::lost:
      throw RankLostError(failure.message, failure.rank);
    case RunFailure::Kind::mismatched:
      throw MismatchError(failure.message);
    default:
      throw CommunicationError(failure.message);
  }
}

RunFailure failure_of(const std::exception_ptr& reason, int own) {
  using Kind = RunFailure::Kind;
  try {
    std::rethrow_exception(reason);
  } catch (const PeerFailedError&) {
    return {};
  } catch (const RankLostError& error) {
    return {.kind = Kind::lost, .rank = error.rank, .message = error.what()};
  } catch (const MismatchError& error) {
    return {.kind = Kind::mismatched, .rank = own, .message = error.what()};
  } catch (const std::exception& error) {
    return {.kind = Kind::exception, .rank = own, .message = error.what()};
  } catch (...) {
    return {.kind = Kind::exception, .rank = own, .message = "an exception that is no std::exception"};
  }
}

}  // namespace tessera::dist

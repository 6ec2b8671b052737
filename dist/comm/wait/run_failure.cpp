#include "dist/comm/wait/run_failure.h"

#include "dist/comm/interface/errors.h"

namespace tessera::dist {

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

#include "dist/comm/wait/run_failure.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "dist/comm/interface/errors.h"
#include "dist/comm/remote/frame.h"

namespace tessera::dist {
namespace {

using remote::Frame;

const RunFailure lost{.kind = RunFailure::Kind::lost, .rank = 3, .message = "rank 3 is lost"};

void check_equal(const RunFailure& found, const RunFailure& expected) {
  CHECK(found.kind == expected.kind);
  CHECK(found.rank == expected.rank);
  CHECK(found.message == expected.message);
}

}  // namespace

TEST_CASE("posted failure: it is read as it was written, and a long message up to its limit") {
  check_equal(decode(encode(lost)), lost);
  check_equal(decode(encode(RunFailure{})), {});
  RunFailure detailed = lost;
  detailed.message = std::string(10'000, 'x');
  const PostedFailure posted = encode(detailed);
  CHECK(used_bytes(posted) < int64_t{sizeof posted});
  detailed.message.resize(8186);
  check_equal(decode(posted), detailed);
}

TEST_CASE("posted failure: a kind that no failure has is an error") {
  PostedFailure posted = encode(lost);
  posted.kind = 17;
  CHECK_THROWS_WITH_AS(decode(posted), "a failure that no rank has: kind 17", CommunicationError);
}

TEST_CASE("posted failure: an abort message contains no more than its used bytes") {
  struct {
    Frame frame;
    PostedFailure payload = encode(lost);
  } sent;
  sent.frame.type = Frame::Type::abort;
  sent.frame.payload_bytes = static_cast<int32_t>(used_bytes(sent.payload));
  sent.payload.message[lost.message.size()] = '!';  // after the used bytes
  const Frame& received =
      remote::frame_in(reinterpret_cast<const char*>(&sent), sent.frame.size(), /*from=*/3);
  check_equal(remote::failure_in(received), lost);
}

}  // namespace tessera::dist

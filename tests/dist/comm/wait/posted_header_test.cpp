// The headers that ranks exchange, over any transport: their bytes, and how they are compared.

#include "dist/comm/wait/posted_header.h"

#include <doctest/doctest.h>

#include <string>

#include "dist/comm/interface/errors.h"
#include "dist/comm/remote/frame.h"

namespace tessera::dist {
namespace {

using remote::Frame;

CallHeader call_of(CallKind kind) {
  return {.sequence = 7,
          .bytes = 400,
          .kind = kind,
          .reduction = Reduction::max,
          .dtype = bf16,
          .root = 2,
          .unit = "blocks.3"};
}

}  // namespace

TEST_CASE("posted header: a header survives, of a long unit the last characters") {
  for (int kind = 0; kind <= static_cast<int>(CallKind::split); ++kind) {
    const CallHeader header = call_of(static_cast<CallKind>(kind));
    CHECK(same_call(decode(encode(header)), header));
  }
  CallHeader header = call_of(CallKind::all_reduce);
  header.unit = std::string(200, 'a') + "blocks.31";
  const std::string posted = decode(encode(header)).unit;
  CHECK(posted.size() == 88);
  CHECK(header.unit.ends_with(posted));
  CHECK(is_same_call(header, decode(encode(header))));
  CallHeader other = header;
  other.unit.back() = '2';
  CHECK(!is_same_call(header, decode(encode(other))));
}

TEST_CASE("posted header: bytes that no rank writes are an error") {
  const auto decode_changed = [](auto change) {
    PostedHeader posted = encode(call_of(CallKind::broadcast));
    change(posted);
    decode(posted);
  };
  CHECK_NOTHROW(decode_changed([](PostedHeader&) {}));
  CHECK_THROWS_AS(decode_changed([](PostedHeader& p) { p.kind = 9; }), CommunicationError);
  CHECK_THROWS_AS(decode_changed([](PostedHeader& p) { p.reduction = 4; }), CommunicationError);
  CHECK_THROWS_AS(decode_changed([](PostedHeader& p) { p.dtype = 8; }), CommunicationError);
  CHECK_THROWS_AS(decode_changed([](PostedHeader& p) { p.bytes = -1; }), CommunicationError);
  CHECK_THROWS_AS(decode_changed([](PostedHeader& p) {
                    for (char& c : p.unit) c = 'x';
                  }),
                  CommunicationError);
}

TEST_CASE("posted header: a send belongs to a recv of the same size and dtype") {
  const CallHeader send = call_of(CallKind::send), recv = call_of(CallKind::recv);
  CHECK(is_same_call(send, recv));
  CHECK(is_same_call(recv, send));
  CHECK(!is_same_call(send, send));
  CHECK(!is_same_call(send, call_of(CallKind::broadcast)));
  CallHeader longer = recv;
  longer.bytes = 401;
  CHECK(!is_same_call(send, longer));
  CHECK(mismatch_text("shard", 4, send, 1, longer) ==
        "group 'shard': rank 1 calls recv #7 of unit 'blocks.3' (401 bytes of bf16), rank 4 calls send #7 of "
        "unit 'blocks.3' (400 bytes of bf16)");
}

TEST_CASE("frame: bytes that are no frame are an error") {
  struct {
    Frame frame;
    char payload[8] = "waits";
  } sent;
  const char* const bytes = reinterpret_cast<const char*>(&sent);
  sent.frame.payload_bytes = 5;
  const int64_t count = sent.frame.size();
  CHECK(remote::frame_in(bytes, count, 1).payload_text() == "waits");
  CHECK_THROWS_AS(remote::frame_in(bytes, count - 1, 1), CommunicationError);
  CHECK_THROWS_AS(remote::frame_in(bytes, 3, 1), CommunicationError);
  sent.frame.payload_bytes = -1;
  CHECK_THROWS_AS(remote::frame_in(bytes, count, 1), CommunicationError);
  sent.frame.payload_bytes = 5;
  sent.frame.type = static_cast<Frame::Type>(17);
  CHECK_THROWS_AS(remote::frame_in(bytes, count, 1), CommunicationError);
}

}  // namespace tessera::dist

#include "dist/comm/remote/frame.h"

#include <algorithm>
#include <cstring>

#include "dist/comm/interface/errors.h"

namespace tessera::dist::remote {

const Frame& frame_in(const char* bytes, int64_t count, int from) {
  require<CommunicationError>(count >= int64_t{sizeof(Frame)}, "rank ", from, " sent ", count,
                              " bytes, fewer than a frame has");
  const Frame& frame = *reinterpret_cast<const Frame*>(bytes);
  require<CommunicationError>(frame.type <= Frame::Type::leave && frame.payload_bytes >= 0 &&
                                  frame.payload_bytes <= Frame::most_payload && count == frame.size(),
                              "rank ", from, " sent ", count, " bytes that are no frame: type ",
                              static_cast<uint32_t>(frame.type), ", payload of ", frame.payload_bytes,
                              " bytes");
  return frame;
}

RunFailure failure_in(const Frame& frame) {
  PostedFailure posted;
  std::memcpy(&posted, frame.payload(), std::min(static_cast<size_t>(frame.payload_bytes), sizeof posted));
  return decode(posted);
}

}  // namespace tessera::dist::remote

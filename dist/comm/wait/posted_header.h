#pragma once  // internal

#include <cstdint>
#include <string>

#include "dist/comm/interface/call.h"

/// The headers of calls as ranks exchange them, over any transport, and how they are compared.
namespace tessera::dist {

/// A CallHeader in plain bytes. Written by `encode`, read by `decode` alone.
struct PostedHeader {
  uint64_t sequence = 0;
  int64_t bytes = 0;
  int32_t root = 0;
  uint8_t kind = 0, reduction = 0, dtype = 0;
  char unit[89] = {};  ///< its last characters, and a 0
};
static_assert(sizeof(PostedHeader) == 112);

PostedHeader encode(const CallHeader& header);
/// Throws CommunicationError where a field has a value that `encode` never writes.
CallHeader decode(const PostedHeader& posted);

/// Whether another rank's header, decoded, belongs to the call that this rank makes: the same call, or the
/// other side of the same message. Of units as much is compared as is posted.
bool is_same_call(const CallHeader& own, const CallHeader& other);
/// "group 'shard': rank 0 calls ..., rank 1 calls ...", the lower rank first. Ranks are those in the world.
std::string mismatch_text(const std::string& group, int rank, const CallHeader& own, int other_rank,
                          const CallHeader& other);
/// The same for two ranks that disagree on the elements which one has for the other.
std::string count_mismatch_text(const std::string& group, const CallHeader& call, int sender, int64_t count,
                                int receiver, int64_t expected);

}  // namespace tessera::dist

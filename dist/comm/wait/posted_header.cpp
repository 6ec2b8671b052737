#include "dist/comm/wait/posted_header.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "dist/comm/interface/errors.h"

namespace tessera::dist {
namespace {

/// The last characters of a unit's name, as many as are posted: these differ between units.
std::string_view posted_suffix(const std::string& unit) {
  constexpr size_t room = sizeof PostedHeader::unit - 1;
  return std::string_view(unit).substr(unit.size() - std::min(unit.size(), room));
}

}  // namespace

PostedHeader encode(const CallHeader& header) {
  PostedHeader posted;
  posted.sequence = header.sequence;
  posted.bytes = header.bytes;
  posted.root = header.root;
  posted.kind = static_cast<uint8_t>(header.kind);
  posted.reduction = static_cast<uint8_t>(header.reduction);
  posted.dtype = static_cast<uint8_t>(header.dtype);
  const std::string_view unit = posted_suffix(header.unit);
  std::copy(unit.begin(), unit.end(), posted.unit);
  return posted;
}

CallHeader decode(const PostedHeader& posted) {
  const size_t length = ::strnlen(posted.unit, sizeof posted.unit);
  require<CommunicationError>(posted.kind <= static_cast<uint8_t>(CallKind::split) &&
                                  posted.reduction <= static_cast<uint8_t>(Reduction::max) &&
                                  posted.dtype <= static_cast<uint8_t>(DType::boolean) && posted.bytes >= 0 &&
                                  length < sizeof posted.unit,
                              "a header that no call has: kind ", int{posted.kind}, ", reduction ",
                              int{posted.reduction}, ", dtype ", int{posted.dtype}, ", ", posted.bytes,
                              " bytes");
  return {.sequence = posted.sequence,
          .bytes = posted.bytes,
          .kind = static_cast<CallKind>(posted.kind),
          .reduction = static_cast<Reduction>(posted.reduction),
          .dtype = static_cast<DType>(posted.dtype),
          .root = posted.root,
          .unit = std::string(posted.unit, length)};
}

bool is_same_call(const CallHeader& own, const CallHeader& other) {
  CallHeader expected = own;
  expected.unit = posted_suffix(own.unit);
  if (is_message(own.kind) && is_message(other.kind)) {
    if (own.kind == other.kind) return false;
    expected.kind = other.kind;  // a send matches a recv
  }
  return same_call(expected, other);
}

std::string mismatch_text(const std::string& group, int rank, const CallHeader& own, int other_rank,
                          const CallHeader& other) {
  const std::string own_text = text("rank ", rank, " calls ", describe_call(own));
  const std::string other_text = text("rank ", other_rank, " calls ", describe_call(other));
  const bool first = rank < other_rank;
  return text("group '", group, "': ", first ? own_text : other_text, ", ", first ? other_text : own_text);
}

std::string count_mismatch_text(const std::string& group, const CallHeader& call, int sender, int64_t count,
                                int receiver, int64_t expected) {
  return text("group '", group, "': in ", call, " rank ", sender, " has ", count, " elements for rank ",
              receiver, ", which expects ", expected);
}

}  // namespace tessera::dist

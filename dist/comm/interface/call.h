#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/types/dtype.h"

/// The description of a call that ranks compare before any of its bytes move.
namespace tessera::dist {

/// What a call does: the member of Communicator that makes it. `split` exchanges the integers of
/// `Communicator::split`.
enum class CallKind : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,
  send,
  recv,
  barrier,
  split
};
/// "all_reduce", "all_gather", ...
const char* name_of(CallKind kind);
/// Whether it is a send or a recv: between two ranks of a group, not all.
constexpr bool is_message(CallKind kind) {
  return kind == CallKind::send || kind == CallKind::recv;
}

/// How the values of several ranks become one. `avg` is the sum divided by the number of ranks. Sums are
/// taken in rank order, accumulated in f32 (f64 for f64, i64 for integers) and rounded once.
enum class Reduction : uint8_t { sum, avg, min, max };
/// "sum", "avg", "min", "max".
const char* name_of(Reduction reduction);

/// The purpose of a call's bytes: the ledger's columns. Scalars (norms, flags, losses) are `control`.
enum class Traffic : uint8_t { parameters, gradients, activations, state, control };
/// "parameters", "gradients", ...
const char* name_of(Traffic traffic);

/// Options of a call.
struct CallOptions {
  std::string_view unit =
      {};  ///< the unit that it belongs to ("blocks.3"): in errors, the ledger and the trace
  Traffic traffic = Traffic::control;  ///< under which the ledger counts the bytes
};

/// One call as all its ranks must make it. Compared field by field before data moves.
struct CallHeader {
  uint64_t sequence = 0;  ///< the call's number in its group, from 0
  int64_t bytes = 0;      ///< of the full tensor: of an all_gather's output, of a reduce_scatter's input
  CallKind kind = CallKind::barrier;     ///< what the call does
  Reduction reduction = Reduction::sum;  ///< of an all_reduce or reduce_scatter; else sum
  DType dtype = f32;                     ///< of the elements; f32 for a barrier
  int root = 0;                          ///< a broadcast's
  std::string unit = {};                 ///< CallOptions::unit
};

/// "all_gather #812 of unit 'blocks.4' (2.4 MB)".
std::string to_string(const CallHeader& header);
/// The same with all fields that ranks must agree on: "all_reduce #3 (400 bytes of f32, sum)".
std::string describe_call(const CallHeader& header);
/// Whether two ranks make the same call. The bytes of an all_to_all may differ from rank to rank.
bool same_call(const CallHeader& a, const CallHeader& b);

}  // namespace tessera::dist

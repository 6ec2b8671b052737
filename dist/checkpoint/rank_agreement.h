#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "tensor/function_ref.h"

/// What ranks tell each other about a checkpoint: short texts, and whether any of them failed. Every rank of
/// the group calls the same functions in the same order.
namespace tessera::dist {

/// The root's text, on every rank.
std::string broadcast_text(Communicator& ranks, const std::string& text, int root = 0);

/// All ranks' texts in rank order, on rank 0; nothing on the others.
std::vector<std::string> gather_texts(Communicator& ranks, const std::string& text);

/// Throws CheckpointError on every rank, with the words of the lowest that has any, unless `problem` is empty
/// on all.
void require_none(Communicator& ranks, const std::string& problem);

/// Runs `body`, which must not communicate, and throws on every rank when it threw on any: an error of one is
/// an error of all, and none waits for another.
void run_together(Communicator& ranks, FunctionRef<void()> body);

/// The same for a body that may take long, such as writing to a slow disk: it runs in a thread of its own (on
/// this rank's account, with as many threads), while the ranks meet now and then, so that none is called
/// stuck.
void run_long_together(Communicator& ranks, FunctionRef<void()> body);

/// Returns when `is_finished(interval)`, which is to wait for that long at most, was true on every rank.
/// Ranks that wait for one that takes long would call it lost; these meet after each interval.
void wait_together(Communicator& ranks, FunctionRef<bool(std::chrono::milliseconds)> is_finished);

/// What `body` throws, as text; "" when it does not.
std::string problem_in(FunctionRef<void()> body);

}  // namespace tessera::dist

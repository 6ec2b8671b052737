#pragma once  // internal

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "tensor/function_ref.h"

/// Collectives of short texts, and of whether a rank failed. Every rank of the group calls the same functions
/// in the same order.
namespace tessera::dist {

/// The root's text, on every rank.
std::string broadcast_text(Communicator& ranks, const std::string& text, int root = 0);

/// All ranks' texts in rank order, on rank 0; empty on the others.
std::vector<std::string> gather_texts(Communicator& ranks, const std::string& text);

/// Throws CheckpointError on every rank, with the `error` of the lowest rank that has one, unless it is empty
/// on all.
void require_no_error(Communicator& ranks, const std::string& error);

/// Runs `body`, which must not communicate, and throws on every rank when it threw on any.
void run_on_all(Communicator& ranks, FunctionRef<void()> body);

/// Returns when `is_finished(interval)`, which waits for at most `interval`, was true on every rank. The
/// ranks run a collective after each interval, so that none times out while it waits for another.
void wait_for_all(Communicator& ranks, FunctionRef<bool(std::chrono::milliseconds)> is_finished);

/// The same until the work is done on every rank; `work` is then ready, with its result or exception.
void wait_for_all(Communicator& ranks, const std::future<void>& work);

/// Waits until the work is done on every rank, and throws on every rank when it threw on any.
void finish_on_all(Communicator& ranks, std::future<void>& work);

/// Runs `body`, which may take long and must not communicate, in another thread (with this rank's memory
/// account and number of threads), while this one calls `wait_for_all`. Returns the work, done on every rank.
std::future<void> run_long(Communicator& ranks, FunctionRef<void()> body);

/// `run_on_all` for a body that may take long, such as writing to a slow disk: `run_long`, and throws on
/// every rank when the body threw on any.
void run_long_together(Communicator& ranks, FunctionRef<void()> body);

/// The message of what `body` throws; "" when it returns.
std::string error_text(FunctionRef<void()> body);

}  // namespace tessera::dist

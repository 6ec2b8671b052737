#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "dist/comm/process/process_ranks.h"

/// Ranks that are processes of this machine, without a launcher: children of the test. They join through
/// memory that they inherit.
namespace tessera::dist::forked {

struct Options {
  ArenaOptions arena = {};
  /// A rank that gets no arena; -1: none.
  int without_arena = -1;
  std::chrono::milliseconds timeout{20'000};
};

/// What a body can use.
struct Process {
  Communicator& communicator;
  SharedArena& arena;
};

/// Runs `body` in `ranks` child processes; returns what each threw, or "", or the signal that killed it.
std::vector<std::string> run(int ranks, const std::function<void(Process&)>& body,
                             const Options& options = {});

}  // namespace tessera::dist::forked

#pragma once  // not in tessera.h

#include <functional>

#include "dist/launch/world.h"

namespace tessera::training {

/// Runs `body`, which must not communicate, on every rank; all ranks call it. Where it throws on any rank,
/// this throws on all: on the lowest of the ranks that failed its own exception, on the others
/// PeerFailedError, so that one message reports it. `world` null: this process is the only rank.
void run_together(dist::World* world, const std::function<void()>& body);

/// The same for a body that may take longer than the ranks' timeout, such as a download: it runs in a thread
/// of its own, and the ranks' collectives at intervals keep any rank from counting as lost.
void run_long_together(dist::World* world, const std::function<void()>& body);

}  // namespace tessera::training

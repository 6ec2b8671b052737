// What an operation does when its turn comes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/cuda_sim/checks/operation_order.h"

namespace tessera::cuda_sim {

/// When operations run that nothing waits for yet. Each is an order that a card may show.
enum class RunOrder : uint8_t {
  eager,   ///< as soon as they can
  lazy,    ///< only when a wait needs them
  random,  ///< seeded: some, now and then, in any order that streams and events allow
};

/// What a waiting operation (a collective) needs from other ranks.
struct Partners {
  std::vector<Operation> issued = {};
  bool some_not_issued = false;
};

struct Work {
  std::string name = {};
  /// Carries it out. False: it has to wait for its partners and is called again.
  std::function<bool(Operation)> run = nullptr;
  /// Of work that can wait; empty for all other.
  std::function<Partners(Operation)> partners = nullptr;
  /// What its partners in other processes wait for, a line each with a new line before; empty where it has
  /// none.
  std::function<std::string()> elsewhere = nullptr;
  /// A function of the program: it runs without the runtime's lock, since it may take any time.
  bool is_host_function = false;
};

}  // namespace tessera::cuda_sim

#include "dist/comm/process/transports.h"

#include <cstdlib>
#include <string_view>

#include "tensor/error.h"

namespace tessera::dist {

bool mpi_is_built() {
#ifdef TESSERA_WITH_MPI
  return true;
#else
  return false;
#endif
}

Transport asked_transport() {
  const char* const asked = std::getenv("TESSERA_TRANSPORT");
  const std::string_view word = asked ? asked : "";
  if (word.empty()) return Transport::automatic;
  if (word == "shared") return Transport::shared;
  require<ConfigError>(word == "messages", "TESSERA_TRANSPORT: expected 'shared' or 'messages', got '", word,
                       "'");
  return Transport::messages;
}

}  // namespace tessera::dist

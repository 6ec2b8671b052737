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

Transport requested_transport() {
  const char* const variable = std::getenv("TESSERA_TRANSPORT");
  const std::string_view value = variable ? variable : "";
  if (value.empty()) return Transport::automatic;
  if (value == "shared") return Transport::shared;
  require<ConfigError>(value == "remote" || value == "messages",
                       "TESSERA_TRANSPORT: expected 'shared' or 'remote', got '", value, "'");
  return Transport::remote;
}

}  // namespace tessera::dist

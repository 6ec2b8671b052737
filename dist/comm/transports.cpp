#include "dist/comm/transports.h"

namespace tessera::dist {

bool mpi_is_built() {
#ifdef TESSERA_WITH_MPI
  return true;
#else
  return false;
#endif
}

}  // namespace tessera::dist

#pragma once

namespace tessera::dist {

/// Whether this build can run ranks as processes (mpirun): it was configured where MPI was found.
bool mpi_is_built();

}  // namespace tessera::dist

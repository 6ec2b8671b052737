#pragma once  // internal

namespace tessera::dist {

/// Whether this build can run ranks as processes (mpirun): it was configured where MPI was found.
bool mpi_is_built();

/// How processes of one machine move their bytes.
enum class Transport {
  automatic,  ///< through shared memory where the machine has it, else by the remote transport
  shared,     ///< through shared memory, or not at all
  remote
};
/// The value of the environment variable TESSERA_TRANSPORT ("shared" or "remote"), for tests. "messages" is
/// the earlier name of "remote", accepted in 0.1. Throws ConfigError for anything else.
Transport requested_transport();

}  // namespace tessera::dist

// Wraps MPI: a process that calls MPI_Finalize while receives of its own are pending prints that and exits
// with status 3. MPI forbids it, and some implementations then never return.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <vector>

namespace {

/// Used only by the one thread that calls MPI.
std::set<MPI_Request>& pending() {
  static std::set<MPI_Request> receives;
  return receives;
}

}  // namespace

extern "C" {

int MPI_Irecv(void* bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const int result = PMPI_Irecv(bytes, count, type, from, tag, comm, request);
  pending().insert(*request);
  return result;
}

int MPI_Testsome(int count, MPI_Request* requests, int* ended, int* indices, MPI_Status* statuses) {
  const std::vector<MPI_Request> before(requests, requests + count);
  const int result = PMPI_Testsome(count, requests, ended, indices, statuses);
  for (int i = 0; *ended != MPI_UNDEFINED && i < *ended; ++i)
    pending().erase(before[static_cast<size_t>(indices[i])]);
  return result;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  pending().erase(*request);
  return PMPI_Wait(request, status);
}

int MPI_Finalize() {
  if (!pending().empty()) {
    std::fprintf(stderr, "MPI_Finalize with %zu receives pending\n", pending().size());
    std::_Exit(3);
  }
  return PMPI_Finalize();
}
}

#include "dist/comm/nccl/ranks.h"

#ifdef TESSERA_WITH_NCCL
#include "dist/comm/nccl/communicator.h"
#endif

namespace tessera::dist {

bool nccl_is_built() {
#ifdef TESSERA_WITH_NCCL
  return true;
#else
  return false;
#endif
}

std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator> host, Device device,
                                                     [[maybe_unused]] std::chrono::milliseconds timeout) {
  require<DeviceError>(device.is_cuda(), "make_nccl_communicator: expected a GPU, got ", device);
#ifdef TESSERA_WITH_NCCL
  return nccl::make_communicator(std::move(host), device, timeout);
#else
  throw NotBuiltError(
      text("group '", host->name(),
           "' over NCCL: this build has none; configure with the preset 'cuda' where NCCL is installed"));
#endif
}

}  // namespace tessera::dist

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "dist/comm/interface/communicator.h"
#include "tensor/device.h"

namespace tessera::dist {

/// All ranks of a run, from the view of one rank.
class World {
 public:
  /// Of the group of all ranks and what the members below return. `launch` makes one for each rank.
  World(std::shared_ptr<Communicator> all, std::string host, int local_rank, int local_size, Device device,
        std::string transport = "threads of one process")
      : all_(std::move(all)),
        host_(std::move(host)),
        transport_(std::move(transport)),
        local_rank_(local_rank),
        local_size_(local_size),
        device_(device) {}

  /// This rank's number, from 0, and the number of ranks.
  /// @{
  int rank() const { return all_->rank(); }
  int size() const { return all_->size(); }
  /// @}
  /// The machine of this rank, the rank's index among the ranks there, and their number.
  /// @{
  const std::string& host() const { return host_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  /// @}
  /// The device on which this rank computes.
  Device device() const { return device_; }
  /// Names the transport: "shared memory", "remote transport (MPI)", ... with the reason where it is not the
  /// fastest.
  const std::string& transport() const { return transport_; }
  /// The group of all ranks.
  /// @{
  Communicator& communicator() const { return *all_; }
  const std::shared_ptr<Communicator>& shared_communicator() const { return all_; }
  /// @}

 private:
  std::shared_ptr<Communicator> all_;
  std::string host_, transport_;
  int local_rank_, local_size_;
  Device device_;
};

}  // namespace tessera::dist

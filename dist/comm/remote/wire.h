#pragma once  // internal

#include <cstdint>
#include <functional>
#include <memory>

namespace tessera::dist::remote {

/// Sends and receives of bytes between the processes of a job, without waiting: the base of the remote
/// thread. All calls come from one thread, the one that made it. Throws CommunicationError where the system
/// below fails.
class Wire {
 public:
  static constexpr int any_rank = -1;
  /// The most bytes of one send.
  static constexpr int64_t most_bytes = int64_t{4} << 20;
  /// Called once the bytes are there (a receive) or may be written over (a send).
  using Done = std::function<void(int from, int64_t bytes)>;

  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The highest tag. Sends of one tag from one rank to another arrive in order.
  virtual int highest_tag() const = 0;
  virtual void send(const void* bytes, int64_t count, int to, int tag, Done done) = 0;
  /// Receives at most `room` bytes, from one rank or from `any_rank`.
  virtual void receive(void* bytes, int64_t room, int from, int tag, Done done) = 0;
  /// Calls `done` of the sends and receives that are over; whether there were any.
  virtual bool test() = 0;
  /// Whether there are sends that are not over.
  virtual bool is_sending() const = 0;
  /// Ends the connection together with all other processes, and waits for them. Pending receives are
  /// cancelled; there must be no pending sends.
  virtual void finish() = 0;
};

/// The wire over MPI, and MPI's only caller: MPI is initialised here, in the calling thread. Throws
/// NotBuiltError where this build has no MPI, ConfigError where MPI's rank and size differ from the
/// launcher's `rank` and `size`.
std::unique_ptr<Wire> make_mpi_wire(int rank, int size);

}  // namespace tessera::dist::remote

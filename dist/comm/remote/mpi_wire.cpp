#include "dist/comm/interface/errors.h"
#include "dist/comm/remote/wire.h"

#ifdef TESSERA_WITH_MPI
#include <mpi.h>

#include <vector>

namespace tessera::dist::remote {
namespace {

void check(int result, const char* call) {
  if (result == MPI_SUCCESS) [[likely]]
    return;
  char reason[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, reason, &length);
  throw CommunicationError(text(call, " failed: ", reason));
}

class MpiWire final : public Wire {
 public:
  MpiWire(int rank, int size) {
    int given = MPI_THREAD_SINGLE, highest_set = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    require<ConfigError>(given >= MPI_THREAD_FUNNELED,
                         "this MPI supports only programs with one thread: expected MPI_THREAD_FUNNELED");
    require<ConfigError>(rank_ == rank && size_ == size, "expected rank ", rank, " of ", size,
                         " by the launcher, got rank ", rank_, " of ", size_, " from MPI",
                         ": start it with the mpirun of the MPI that Tessera was built with");
    const int* highest = nullptr;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest, &highest_set), "MPI_Comm_get_attr");
    if (highest_set) highest_tag_ = *highest;
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int highest_tag() const override { return highest_tag_; }

  void send(const void* bytes, int64_t count, int to, int tag, Done done) override {
    ++sends_;
    check(MPI_Isend(bytes, static_cast<int>(count), MPI_BYTE, to, tag, comm_, &add(std::move(done), false)),
          "MPI_Isend");
  }

  void receive(void* bytes, int64_t room, int from, int tag, Done done) override {
    check(MPI_Irecv(bytes, static_cast<int>(room), MPI_BYTE, from == any_rank ? MPI_ANY_SOURCE : from, tag,
                    comm_, &add(std::move(done), true)),
          "MPI_Irecv");
  }

  bool test() override {
    over_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, over_.data(),
                       statuses_.data()),
          "MPI_Testsome");
    if (count == MPI_UNDEFINED || count == 0) return false;
    struct Ended {
      Done done;
      int from, bytes;
    };
    std::vector<Ended> ended;
    for (int i = 0; i < count; ++i) {
      const auto slot = static_cast<size_t>(over_[static_cast<size_t>(i)]);
      const MPI_Status& status = statuses_[static_cast<size_t>(i)];
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      ended.push_back({std::move(pending_[slot].done), status.MPI_SOURCE, bytes});
      if (!pending_[slot].is_receive) --sends_;
    }
    remove_ended();
    for (const Ended& one : ended) one.done(one.from, one.bytes);  // these may add new requests
    return true;
  }

  bool is_sending() const override { return sends_ > 0; }

  void finish() override {
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (!pending_[i].is_receive) continue;
      check(MPI_Cancel(&requests_[i]), "MPI_Cancel");
      check(MPI_Wait(&requests_[i], MPI_STATUS_IGNORE), "MPI_Wait");
    }
    check(MPI_Finalize(), "MPI_Finalize");
  }

 private:
  struct Pending {
    Done done;
    bool is_receive;
  };

  MPI_Request& add(Done done, bool is_receive) {
    pending_.push_back({std::move(done), is_receive});
    return requests_.emplace_back(MPI_REQUEST_NULL);
  }

  void remove_ended() {
    size_t kept = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      if (kept != i) {
        requests_[kept] = requests_[i];
        pending_[kept] = std::move(pending_[i]);
      }
      ++kept;
    }
    requests_.resize(kept);
    pending_.resize(kept);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 0, highest_tag_ = 32767;
  std::vector<MPI_Request> requests_;
  std::vector<Pending> pending_;  // one for each request
  int sends_ = 0;                 // of them
  std::vector<int> over_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

std::unique_ptr<Wire> make_mpi_wire(int rank, int size) {
  return std::make_unique<MpiWire>(rank, size);
}

}  // namespace tessera::dist::remote

#else

namespace tessera::dist::remote {

std::unique_ptr<Wire> make_mpi_wire(int, int) {
  throw NotBuiltError("this build has no MPI: install libopenmpi-dev and openmpi-bin and configure again");
}

}  // namespace tessera::dist::remote

#endif

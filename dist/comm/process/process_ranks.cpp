#include "dist/comm/process/process_ranks.h"

#include <algorithm>
#include <cstring>

#include "dist/comm/node/communicator.h"

namespace tessera::dist {
namespace {

/// What a process sends the others about its arena.
struct ArenaRecord {
  bool exists = false;
  ArenaPlace place;
};

/// What a process sends the others about its attempt to map their arenas.
struct Outcome {
  char no_shared_memory_reason[256] = "";  ///< empty: none
};

template <size_t n>
void write_text(const std::string& from, char (&to)[n]) {
  std::memcpy(to, from.data(), std::min(from.size(), n - 1));
}

std::vector<uintptr_t> bases_of(const SharedArena& own, int rank, const std::vector<SharedMapping>& others) {
  std::vector<uintptr_t> bases;
  for (const SharedMapping& other : others) bases.push_back(reinterpret_cast<uintptr_t>(other.data()));
  bases.insert(bases.begin() + rank, reinterpret_cast<uintptr_t>(own.data()));
  return bases;
}

/// This process's arena, and the mapped arenas of the others.
class MappedArenas final : public node::SharedMemory {
 public:
  MappedArenas(std::shared_ptr<SharedArena> own, int rank, std::vector<SharedMapping> others,
               std::vector<int> world_ranks)
      : SharedMemory(std::move(world_ranks), bases_of(*own, rank, others),
                     reinterpret_cast<uintptr_t>(own->data())),
        own_(std::move(own)),
        others_(std::move(others)) {
    for (int r = 0; r < ranks(); ++r) blocks_.push_back(&SharedArena::block_in(at(r, 0)));
    failure_ = &SharedArena::failure_in(at(0, 0));
  }

  bool is_visible(const void* data, int64_t nbytes) const override { return own_->holds(data, nbytes); }
  bool may_stage() const override { return true; }
  std::shared_ptr<void> take_staging_buffer(int64_t nbytes) override {
    void* const block = own_->take_shared(nbytes);
    if (!block) return nullptr;
    return {block, [arena = own_, nbytes](void* buffer) { arena->give(buffer, nbytes); }};
  }
  std::shared_ptr<MemorySource> memory_source() const override { return own_; }
  void* allocate_control(int64_t nbytes) override {
    void* const block = own_->take_shared(nbytes);
    require<OutOfMemoryError>(block, "a group's control memory: the shared arena has no ", nbytes,
                              " bytes left");
    return std::memset(block, 0, static_cast<size_t>(nbytes));
  }

 private:
  std::shared_ptr<SharedArena> own_;
  std::vector<SharedMapping> others_;
};

}  // namespace

JoinedProcesses join_processes(std::shared_ptr<SharedArena> arena, Bootstrap& bootstrap,
                               std::vector<int> world_ranks) {
  ArenaRecord own;
  if (arena) own = {.exists = true, .place = arena->place()};
  const std::vector<ArenaRecord> records = gather_records(bootstrap, own);
  std::vector<SharedMapping> others;
  Outcome outcome;
  for (int r = 0; r < bootstrap.size() && !*outcome.no_shared_memory_reason; ++r) {
    const ArenaRecord& record = records[static_cast<size_t>(r)];
    try {
      require<OutOfMemoryError>(record.exists, "rank ", world_ranks[static_cast<size_t>(r)],
                                " has no shared memory");
      if (r != bootstrap.rank()) others.push_back(SharedArena::open(record.place));
    } catch (const OutOfMemoryError& error) {
      write_text(error.what(), outcome.no_shared_memory_reason);
    }
  }
  const std::vector<Outcome> outcomes = gather_records(bootstrap, outcome);
  for (const Outcome& other : outcomes)
    if (*other.no_shared_memory_reason)
      return {.shared = nullptr, .no_shared_memory_reason = other.no_shared_memory_reason};
  const int rank = bootstrap.rank();
  return {.shared = std::make_shared<MappedArenas>(std::move(arena), rank, std::move(others),
                                                   std::move(world_ranks)),
          .no_shared_memory_reason = ""};
}

std::shared_ptr<Communicator> make_node_communicator(std::shared_ptr<node::Rank> self, Bootstrap& bootstrap,
                                                     const std::string& name,
                                                     std::shared_ptr<Ledger> ledger) {
  const int64_t token = bootstrap.rank() == 0 ? node::open_group_memory(*self, bootstrap.size()) : 0;
  std::vector<int> members = node::rank_indices(bootstrap.size());
  return std::make_shared<node::Communicator>(std::move(self), name, std::move(members), bootstrap.rank(),
                                              gather_records(bootstrap, token).front(), std::move(ledger));
}

}  // namespace tessera::dist

#include "dist/fsdp/initial_values.h"

#include <algorithm>

#include "dist/fsdp/value_hash.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// "rank 1", "ranks 1 and 3": ranks in the world.
std::string rank_names(const Communicator& ranks, const std::vector<int>& which) {
  std::string names = which.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < which.size(); ++i)
    names += text(i == 0                  ? " "
                  : i + 1 == which.size() ? " and "
                                          : ", ",
                  ranks.members()[static_cast<size_t>(which[i])]);
  return names;
}

}  // namespace

InitialValues::InitialValues(nn::Module& root, const std::vector<nn::Module*>& excluded, Communicator& ranks,
                             bool from_rank_0)
    : ranks_(ranks), from_rank_0_(from_rank_0) {
  collect(root, excluded, "");
  compare_kinds();
  compare();
}

void InitialValues::collect(nn::Module& module, const std::vector<nn::Module*>& excluded,
                            const std::string& prefix) {
  if (std::find(excluded.begin(), excluded.end(), &module) != excluded.end()) return;
  for (const nn::Module::Entry& entry : module.entries())
    if (entry.held && entry.variable.defined()) entries_.push_back({prefix + entry.name, entry.variable});
  for (const nn::Module::Child& child : module.child_entries())
    collect(*child.module, excluded, prefix + child.name + ".");
}

/// Dtypes, and which parameters are trained.
void InitialValues::compare_kinds() {
  const int64_t n = std::ssize(entries_);
  std::vector<int64_t> mine;
  for (const Entry& entry : entries_)
    mine.push_back(2 * static_cast<int64_t>(entry.variable.dtype()) + entry.variable.requires_grad());
  const Tensor all = Tensor::empty({ranks_.size(), n}, i64);
  ranks_
      .all_gather(all, Tensor::from(std::span<const int64_t>(mine), {n}),
                  {.unit = "dtypes and requires_grad"})
      .wait();
  const int64_t* kinds = all.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    const auto dtype = [&](int rank) { return static_cast<DType>(kinds[rank * n + i] / 2); };
    const auto is_trained = [&](int rank) { return kinds[rank * n + i] % 2 != 0; };
    std::vector<int> others, trained, frozen;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      if (dtype(rank) != dtype(0) && (others.empty() || dtype(rank) == dtype(others.front())))
        others.push_back(rank);
      (is_trained(rank) ? trained : frozen).push_back(rank);
    }
    const std::string& name = entries_[static_cast<size_t>(i)].name;
    if (!others.empty())
      throw ValueError(text("shard: '", name, "' is ", dtype(others.front()), " on ",
                            rank_names(ranks_, others), " and ", dtype(0), " on ", rank_names(ranks_, {0}),
                            ": give it one dtype on every rank"));
    if (!trained.empty() && !frozen.empty())
      throw ValueError(text("shard: '", name, "' is trained on ", rank_names(ranks_, trained),
                            " and frozen on ", rank_names(ranks_, frozen),
                            ": set its requires_grad alike on every rank"));
  }
}

void InitialValues::compare() {
  std::vector<Tensor> values;
  for (const Entry& entry : entries_) values.push_back(entry.variable.value());
  const Tensor hashes = gather_value_hashes(ranks_, values);
  const int64_t n = std::ssize(entries_);
  const int64_t* first = hashes.data<int64_t>();  // rank 0's
  for (int64_t i = 0; i < n; ++i) {
    if (from_rank_0_ && first[i] != 0) {
      on_rank_0_.insert(entries_[static_cast<size_t>(i)].variable.impl().get());
      continue;
    }
    std::vector<int> others;
    for (int rank = 1; rank < ranks_.size(); ++rank)
      if (first[rank * n + i] != first[i]) others.push_back(rank);
    if (others.empty()) continue;
    throw_mismatch(entries_[static_cast<size_t>(i)].name, others, first[i] != 0,
                   first[others.front() * n + i] != 0);
  }
}

void InitialValues::throw_mismatch(const std::string& name, const std::vector<int>& others, bool has_first,
                                   bool has_other) const {
  const std::string first = rank_names(ranks_, {0}), other = rank_names(ranks_, others);
  std::string what = text("has other values on ", other, " than on ", first);
  if (!has_other) what = text("has values on ", first, " and none yet on ", other);
  if (!has_first) what = text("has values on ", other, " and none yet on ", first);
  throw ValueError(text("shard: '", name, "' ", what, ": load the same values on every rank, or on ", first,
                        " and set ShardOptions::sync_module_states"));
}

bool InitialValues::comes_from_rank_0(const Variable& variable) const {
  return on_rank_0_.contains(variable.impl().get());
}

void InitialValues::broadcast(const Variable& variable) const {
  if (!comes_from_rank_0(variable)) return;
  if (variable.value().is_meta()) {
    const CategoryScope category(MemoryCategory::parameter);
    variable.set_value(Tensor::empty(variable.shape(), variable.dtype()));
  }
  const Tensor values = variable.value().contiguous();
  ranks_.broadcast(values, 0, {.unit = "initial values", .traffic = Traffic::state}).wait();
  if (values.raw_data() != variable.value().raw_data())
    variable.value().copy_from(values);
  else
    values.bump_version();
}

void InitialValues::broadcast_except(const nn::ParameterSet& sharded) const {
  for (const Entry& entry : entries_)
    if (!sharded.contains(entry.variable.impl().get())) broadcast(entry.variable);
}

void require_same_seed(Communicator& ranks, uint64_t seed) {
  const Tensor all = Tensor::empty({ranks.size()}, i64);
  ranks.all_gather(all, Tensor::from({static_cast<int64_t>(seed)}), {.unit = "seeds"}).wait();
  const int64_t* seeds = all.data<int64_t>();
  for (int rank = 1; rank < ranks.size(); ++rank)
    require<ValueError>(seeds[rank] == seeds[0], "materialize: expected one seed on all ranks, got ",
                        static_cast<uint64_t>(seeds[0]), " on ", rank_names(ranks, {0}), " and ",
                        static_cast<uint64_t>(seeds[rank]), " on ", rank_names(ranks, {rank}));
}

}  // namespace tessera::dist

#include "tensor/memory/account.h"

#include "tensor/error.h"
#include "tensor/memory/plan.h"

namespace tessera {
namespace {

intrusive_ptr<MemoryAccount>& account_slot() {
  static const auto process_account = make_intrusive<MemoryAccount>();
  thread_local intrusive_ptr<MemoryAccount> slot = process_account;
  return slot;
}

const intrusive_ptr<MemoryAccount>& process_meta_account() {
  static const auto process_account = make_intrusive<MemoryAccount>();
  return process_account;
}

intrusive_ptr<MemoryAccount>& meta_account_slot() {
  thread_local intrusive_ptr<MemoryAccount> slot = process_meta_account();
  return slot;
}

thread_local MemoryCategory category_slot = MemoryCategory::activation;

}  // namespace

std::string to_string(MemoryCategory category) {
  constexpr const char* names[] = {"parameter",  "gradient",      "optimizer_state",
                                   "activation", "communication", "other"};
  return names[static_cast<int>(category)];
}

void MemoryAccount::Counter::add(int64_t bytes) {
  const int64_t now = current.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  allocations.fetch_add(1, std::memory_order_relaxed);
  int64_t most = peak.load(std::memory_order_relaxed);
  while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

MemoryCount MemoryAccount::Counter::read() const {
  return {current.load(), peak.load(), allocations.load()};
}

void MemoryAccount::add(MemoryCategory category, int64_t bytes) {
  const int64_t limit = limit_.load(std::memory_order_relaxed);
  if (limit > 0 && total_.current.load(std::memory_order_relaxed) + bytes > limit)
    throw OutOfMemoryError(text("memory limit of ", limit, " bytes: ", total_.current.load(),
                                " are held and ", bytes, " more were requested (", category, ")"));
  counters_[static_cast<int>(category)].add(bytes);
  const int64_t before = total_.peak.load(std::memory_order_relaxed);
  total_.add(bytes);
  if (total_.peak.load(std::memory_order_relaxed) != before)
    for (int i = 0; i < memory_categories; ++i)
      at_peak_[i].store(counters_[i].current.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void MemoryAccount::remove(MemoryCategory category, int64_t bytes) {
  counters_[static_cast<int>(category)].current.fetch_sub(bytes, std::memory_order_relaxed);
  total_.current.fetch_sub(bytes, std::memory_order_relaxed);
}

void MemoryAccount::move(MemoryCategory from, MemoryCategory to, int64_t bytes) {
  counters_[static_cast<int>(from)].current.fetch_sub(bytes, std::memory_order_relaxed);
  counters_[static_cast<int>(to)].add(bytes);
}

MemoryCount MemoryAccount::count(MemoryCategory category) const {
  return counters_[static_cast<int>(category)].read();
}

MemoryCount MemoryAccount::total() const {
  return total_.read();
}

std::array<int64_t, memory_categories> MemoryAccount::at_peak() const {
  std::array<int64_t, memory_categories> bytes{};
  for (int i = 0; i < memory_categories; ++i) bytes[i] = at_peak_[i].load();
  return bytes;
}

void MemoryAccount::reset_peaks() {
  for (int i = 0; i < memory_categories; ++i) {
    counters_[i].peak.store(counters_[i].current.load());
    at_peak_[i].store(counters_[i].current.load());
  }
  total_.peak.store(total_.current.load());
}

const intrusive_ptr<MemoryAccount>& current_account() {
  return account_slot();
}
const intrusive_ptr<MemoryAccount>& current_meta_account() {
  return meta_account_slot();
}
bool is_planning() {
  return meta_account_slot().get() != process_meta_account().get();
}
MemoryCategory current_category() {
  return category_slot;
}

AccountScope::AccountScope(intrusive_ptr<MemoryAccount> account) : previous_(account_slot()) {
  account_slot() = std::move(account);
}
AccountScope::~AccountScope() {
  account_slot() = std::move(previous_);
}

MetaAccountScope::MetaAccountScope(intrusive_ptr<MemoryAccount> account) : previous_(meta_account_slot()) {
  meta_account_slot() = std::move(account);
}
MetaAccountScope::~MetaAccountScope() {
  meta_account_slot() = std::move(previous_);
}

CategoryScope::CategoryScope(MemoryCategory category) : previous_(category_slot) {
  category_slot = category;
}
CategoryScope::~CategoryScope() {
  category_slot = previous_;
}

MemoryScopes current_memory_scopes() {
  return {account_slot(), meta_account_slot(), category_slot};
}

void adopt_memory_scopes(const MemoryScopes& scopes) {
  // Comparing first avoids writes to the reference count, which all threads of a rank share.
  intrusive_ptr<MemoryAccount>& account = account_slot();
  if (account.get() != scopes.account.get()) account = scopes.account;
  intrusive_ptr<MemoryAccount>& meta_account = meta_account_slot();
  if (meta_account.get() != scopes.meta_account.get()) meta_account = scopes.meta_account;
  category_slot = scopes.category;
}

}  // namespace tessera

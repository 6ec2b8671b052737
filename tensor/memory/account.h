#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "tensor/memory/intrusive_ptr.h"

namespace tessera {

/// The purpose of a storage's bytes.
enum class MemoryCategory : uint8_t {
  parameter,
  gradient,
  optimizer_state,
  activation,
  communication,
  other
};
/// The number of categories.
inline constexpr int memory_categories = 6;

/// "parameter", "gradient", "optimizer_state", ...
std::string to_string(MemoryCategory category);

/// Bytes held now, the most that were held, and the number of allocations.
struct MemoryCount {
  int64_t current = 0;      ///< bytes held now
  int64_t peak = 0;         ///< the most bytes held at once, since the last `reset_peaks`
  int64_t allocations = 0;  ///< how often bytes were added
};

/// The bytes that one rank holds, by category. Counted where memory is allocated, so that a test can check a
/// claim about memory. Meta storages are counted in an account of their own (`current_meta_account`): a meta
/// run is a plan of the bytes. Thread-safe.
class MemoryAccount : public RefCounted<MemoryAccount> {
 public:
  /// Counts `bytes`. Throws OutOfMemoryError, and counts nothing, when they would exceed the limit.
  void add(MemoryCategory category, int64_t bytes);
  /// Counts `bytes` as given back.
  void remove(MemoryCategory category, int64_t bytes);
  /// Counts `bytes` under `to` instead of `from`, as an allocation there; the total stays.
  void move(MemoryCategory from, MemoryCategory to, int64_t bytes);

  /// One category.
  MemoryCount count(MemoryCategory category) const;
  /// All categories together; its peak is the peak of the sum.
  MemoryCount total() const;
  /// Bytes of each category at the moment of the total's peak.
  std::array<int64_t, memory_categories> at_peak() const;
  /// Sets the peaks to what is held now.
  void reset_peaks();
  /// A limit on the sum in bytes; 0 for none.
  void set_limit(int64_t bytes) { limit_ = bytes; }

 private:
  struct Counter {
    std::atomic<int64_t> current{0}, peak{0}, allocations{0};
    void add(int64_t bytes);
    MemoryCount read() const;
  };
  std::array<Counter, memory_categories> counters_;
  Counter total_;
  std::array<std::atomic<int64_t>, memory_categories> at_peak_{};
  std::atomic<int64_t> limit_{0};
};

/// The account in which this thread's allocations are counted; outside every AccountScope a process-wide one.
const intrusive_ptr<MemoryAccount>& current_account();
/// The account in which this thread's meta storages are counted.
const intrusive_ptr<MemoryAccount>& current_meta_account();
/// The category of this thread's allocations; outside every CategoryScope `activation`.
MemoryCategory current_category();

/// Makes `account` current in this thread while the scope lives. Each thread of a rank opens one on the
/// rank's account.
class AccountScope {
 public:
  /// `account` must not be null.
  explicit AccountScope(intrusive_ptr<MemoryAccount> account);
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

 private:
  intrusive_ptr<MemoryAccount> previous_;
};

/// Makes `account` the one for meta storages in this thread while the scope lives: how a plan counts bytes.
class MetaAccountScope {
 public:
  /// `account` must not be null.
  explicit MetaAccountScope(intrusive_ptr<MemoryAccount> account);
  ~MetaAccountScope();
  MetaAccountScope(const MetaAccountScope&) = delete;
  MetaAccountScope& operator=(const MetaAccountScope&) = delete;

 private:
  intrusive_ptr<MemoryAccount> previous_;
};

/// Allocations of this thread are counted under `category` while the scope lives.
class CategoryScope {
 public:
  /// The destructor restores the previous category.
  explicit CategoryScope(MemoryCategory category);
  ~CategoryScope();
  CategoryScope(const CategoryScope&) = delete;
  CategoryScope& operator=(const CategoryScope&) = delete;

 private:
  MemoryCategory previous_;
};

/// Where a thread's allocations are counted. It is passed on to the threads of its team.
struct MemoryScopes {
  const intrusive_ptr<MemoryAccount>& account;       ///< `current_account()` of that thread
  const intrusive_ptr<MemoryAccount>& meta_account;  ///< `current_meta_account()` of that thread
  MemoryCategory category;                           ///< `current_category()` of that thread
};
/// The scopes of this thread, as references into it.
MemoryScopes current_memory_scopes();
/// Makes `scopes` current in this thread, until others are adopted. Almost free when they are current
/// already.
void adopt_memory_scopes(const MemoryScopes& scopes);

}  // namespace tessera

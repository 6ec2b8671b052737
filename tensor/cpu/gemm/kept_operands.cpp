#include "tensor/cpu/gemm/kept_operands.h"

#include <algorithm>

#include "tensor/error.h"
#include "tensor/memory/account.h"

namespace tessera::kernels::cpu {

void KeptOperands::Entry::begin_values() {
  if (products == 0) return;  // nothing has used the last ones, so nothing is packed
  comes_again = products > 1;
  products = 0;
  is_packed = false;
  if (!comes_again) memory = {};
}

bool KeptOperands::Entry::reserve(int64_t bytes) {
  if (memory.defined() && memory.nbytes() >= bytes) return true;
  const CategoryScope category(MemoryCategory::other);
  try {
    memory = Tensor::empty({bytes}, u8);
    return true;
  } catch (const OutOfMemoryError&) {
    return false;  // a product needs no kept operand
  }
}

void KeptOperands::renew() {
  for (auto& [key, entry] : entries_) entry.begin_values();
}

void* KeptOperands::find_or_pack(const Tensor& values, const PackedKey& key, int64_t rows, int64_t bytes,
                                 const Pack& pack) {
  const bool gains = rows <= most_rows(key.form);
  if (!gains && !entries_.contains(key)) return nullptr;
  if (entries_.size() >= drop_at_) drop_unused();
  Entry& entry = entries_[key];
  if (entry.counter != values.version_counter()) {
    entry = {.counter = values.version_counter(), .version = values.version()};
  } else if (entry.version != values.version()) {
    entry.begin_values();
    entry.version = values.version();
  }
  if (gains) ++entry.products;
  if (!entry.is_packed && gains && (entry.products > 1 || entry.comes_again) && entry.reserve(bytes)) {
    pack(entry.memory.raw_data());
    entry.is_packed = true;
    ++packed_;
  }
  return entry.is_packed ? entry.memory.raw_data() : nullptr;
}

int64_t KeptOperands::bytes() const {
  int64_t sum = 0;
  for (const auto& [key, entry] : entries_) sum += entry.memory.defined() ? entry.memory.nbytes() : 0;
  return sum;
}

void KeptOperands::drop_unused() {
  std::map<const VersionCounter*, int32_t> held;  // references of entries
  for (const auto& [key, entry] : entries_) ++held[entry.counter.get()];
  std::erase_if(entries_, [&](const auto& item) {
    return item.second.counter->use_count() == held[item.second.counter.get()];
  });
  drop_at_ = entries_.size() + std::max<size_t>(32, entries_.size() / 2);
}

}  // namespace tessera::kernels::cpu

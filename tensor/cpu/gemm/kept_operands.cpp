#include "tensor/cpu/gemm/kept_operands.h"

#include <algorithm>

namespace tessera::kernels::cpu {

void KeptOperands::Entry::begin_values() {
  comes_again = products > 1;
  products = 0;
  is_packed = false;
  if (!comes_again) memory = {};
}

void KeptOperands::renew() {
  for (auto& [key, entry] : entries_) entry.begin_values();
}

void* KeptOperands::find(const Tensor& values, const PackedKey& key, int64_t rows, int64_t bytes,
                         const Pack& pack) {
  const bool gains = rows <= most_rows(key.form);
  if (!gains && !entries_.contains(key)) return nullptr;
  if (entries_.size() >= look_at_) drop_unused();
  Entry& entry = entries_[key];
  if (entry.counter != values.version_counter()) {
    entry = {.counter = values.version_counter(), .version = values.version()};
  } else if (entry.version != values.version()) {
    entry.begin_values();
    entry.version = values.version();
  }
  if (gains) ++entry.products;
  if (!entry.is_packed && gains && (entry.products > 1 || entry.comes_again)) {
    if (!entry.memory.defined() || entry.memory.nbytes() < bytes) entry.memory = Tensor::empty({bytes}, u8);
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
  std::erase_if(entries_, [](const auto& item) { return item.second.counter->use_count() == 1; });
  look_at_ = std::max<size_t>(256, 2 * entries_.size());
}

}  // namespace tessera::kernels::cpu

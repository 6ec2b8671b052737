#include "tensor/memory/storage.h"

#include <algorithm>
#include <utility>

#include "tensor/cuda/backend.h"
#include "tensor/error.h"
#include "tensor/memory/cpu_allocator.h"
#include "tensor/memory/storage_owner.h"

namespace tessera {
namespace {

/// Processors address no more. Larger sizes would overflow where an allocator rounds them up.
constexpr int64_t max_bytes = int64_t{1} << 56;

}  // namespace

intrusive_ptr<Storage> Storage::allocate(int64_t nbytes, Device device, Initial initial) {
  require<NotBuiltError>(!device.is_cuda() || cuda_is_built(), "storage on ", device,
                         ": this build has no CUDA backend");
  intrusive_ptr<Storage> storage(new Storage(nbytes, device));
  storage->initialize(device.is_meta() ? current_meta_account() : current_account(), initial);
  return storage;
}

intrusive_ptr<Storage> Storage::allocate(int64_t nbytes, std::shared_ptr<MemorySource> source,
                                         Initial initial) {
  intrusive_ptr<Storage> storage(new Storage(nbytes, cpu()));
  storage->source_ = std::move(source);
  storage->initialize(current_account(), initial);
  return storage;
}

intrusive_ptr<Storage> Storage::wrap(void* data, int64_t nbytes, Device device,
                                     std::function<void()> on_destroy) {
  intrusive_ptr<Storage> storage(new Storage(nbytes, device));
  storage->data_ = data;
  storage->on_destroy_ = std::move(on_destroy);
  return storage;
}

intrusive_ptr<Storage> Storage::batched(intrusive_ptr<Storage> base, int64_t sample_stride, int32_t samples) {
  intrusive_ptr<Storage> storage(
      new Storage(base->nbytes(), {.kind = DeviceKind::batched, .samples = static_cast<uint16_t>(samples)}));
  storage->data_ = base->data();
  storage->sample_stride_ = sample_stride;
  storage->on_destroy_ = [base = std::move(base)] {};
  return storage;
}

Storage::~Storage() {
  if (on_destroy_) on_destroy_();
  if (!released_) free_bytes();
}

void Storage::initialize(intrusive_ptr<MemoryAccount> account, Initial initial) {
  require<ValueError>(nbytes_ >= 0, "storage on ", device_, ": expected at least 0 bytes, got ", nbytes_);
  const bool fits = device_.is_batched() ? nbytes_ <= max_bytes / std::max<int64_t>(device_.samples, 1)
                                         : device_.is_meta() || nbytes_ <= max_bytes;
  require<OutOfMemoryError>(fits, "storage on ", device_, ": ", nbytes_,
                            " bytes are more than a processor addresses");
  category_ = current_category();
  account_ = std::move(account);
  released_ = true;
  if (initial == Initial::filled) allocate_bytes();
}

void Storage::allocate_bytes() {
  // Stays released where the account throws: the storage then has nothing to give back.
  released_ = true;
  account_->add(category_, allocated_bytes());
  if (!device_.is_meta()) {
    try {
      data_ = source_             ? source_->take(nbytes_)
              : device_.is_cuda() ? cuda_backend::allocate(device_, nbytes_)
                                  : cpu_allocate(allocated_bytes());
    } catch (...) {
      account_->remove(category_, allocated_bytes());
      throw;
    }
  }
  released_ = false;
}

void Storage::free_bytes() noexcept {
  if (!account_) return;  // wrapped memory has another owner
  if (source_)
    source_->give(data_, nbytes_);
  else if (device_.is_cuda())
    cuda_backend::free(device_, data_);
  else if (!device_.is_meta())
    cpu_free(data_, allocated_bytes());
  data_ = nullptr;
  account_->remove(category_, allocated_bytes());
}

void Storage::release() {
  if (released_) return;
  require<StorageError>(static_cast<bool>(account_), "release: storage '", label_,
                        "' wraps memory that it does not own");
  free_bytes();
  released_ = true;
}

void Storage::refill() {
  if (released_) allocate_bytes();
}

void Storage::set_category(MemoryCategory category) {
  if (account_ && !released_) account_->move(category_, category, allocated_bytes());
  category_ = category;
}

void Storage::throw_released() const {
  if (const StorageOwner* owner = owner_of(*this)) throw StorageError(owner->describe_released(*this));
  // The label that an owner left, with the reason, is the message.
  if (label_.find(": ") != std::string::npos) throw StorageError(label_);
  throw StorageError(text("the values of ", label_.empty() ? std::string("this storage") : "'" + label_ + "'",
                          " (", nbytes_, " bytes on ", device_,
                          ") were released: refill or unshard it before use"));
}

}  // namespace tessera

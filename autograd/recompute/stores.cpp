#include "autograd/recompute/stores.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "tensor/error.h"

namespace tessera {
namespace {

/// A copy in an account of its own.
class HostValue final : public ValueSource {
 public:
  HostValue(const Tensor& value, const intrusive_ptr<MemoryAccount>& account) : device_(value.device()) {
    const AccountScope scope(account);
    const CategoryScope category(MemoryCategory::activation);
    copy_ = Tensor::empty(value.shape(), value.dtype(), cpu());
    copy_.copy_from(value);
  }
  Tensor produce() override {
    const Tensor value = Tensor::empty(copy_.shape(), copy_.dtype(), device_);
    value.copy_from(copy_);
    return value;
  }

 private:
  Tensor copy_;
  Device device_;
};

/// On meta there are no bytes to move; the value itself is no longer held.
class MetaValue final : public ValueSource {
 public:
  explicit MetaValue(const Tensor& value) : shape_(value.shape()), dtype_(value.dtype()) {}
  Tensor produce() override { return Tensor::empty(shape_, dtype_, meta()); }

 private:
  Shape shape_;
  DType dtype_;
};

}  // namespace

HostStore::HostStore(int64_t budget_bytes, std::string budget_name)
    : account_(make_intrusive<MemoryAccount>()),
      budget_bytes_(budget_bytes),
      budget_name_(std::move(budget_name)) {
  require<ConfigError>(budget_bytes >= 0, "HostStore: expected a budget of 0 or more bytes, got ",
                       budget_bytes);
  account_->set_limit(budget_bytes);
}

SavingPolicy HostStore::policy() const {
  return [account = account_, limit = budget_bytes_, name = budget_name_](
             const char*, const Tensor& value) -> std::shared_ptr<ValueSource> {
    if (value.numel() == 0) return nullptr;
    if (value.is_meta()) return std::make_shared<MetaValue>(value);
    try {
      return std::make_shared<HostValue>(value, account);
    } catch (const OutOfMemoryError& error) {
      if (limit == 0) throw;
      throw StoreBudgetError(text(name, " ", limit, ": ", error.what(), "; 0 is no limit"));
    }
  };
}

/// Values in ranges of a file: each in the first free range that is large enough, else at the end.
/// Thread-safe.
class FileStore::File {
 public:
  explicit File(const std::string& folder) : folder_(folder) {
    require<ConfigError>(!folder.empty(), "FileStore: expected a folder, got an empty name");
    std::string path = folder + "/activations-XXXXXX";
    descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
    require<ConfigError>(descriptor_ >= 0, "FileStore: cannot make a file in '", folder,
                         "': ", std::strerror(errno));
    ::unlink(path.c_str());
  }
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Returns where the bytes are.
  int64_t write(const void* data, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const int64_t at = take_range(bytes);
    try {
      transfer(at, bytes, [&](int64_t done) {
        return ::pwrite(descriptor_, static_cast<const char*>(data) + done, static_cast<size_t>(bytes - done),
                        at + done);
      });
    } catch (...) {
      give_back(at, bytes);
      throw;
    }
    held_ += bytes;
    peak_ = std::max(peak_, held_);
    return at;
  }
  void read(int64_t at, void* data, int64_t bytes) {
    transfer(at, bytes, [&](int64_t done) {
      return ::pread(descriptor_, static_cast<char*>(data) + done, static_cast<size_t>(bytes - done),
                     at + done);
    });
  }
  void release(int64_t at, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    held_ -= bytes;
    give_back(at, bytes);
  }
  int64_t held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  int64_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  int64_t end() const {
    const std::lock_guard lock(mutex_);
    return end_;
  }

 private:
  int64_t take_range(int64_t bytes) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      const auto [at, size] = *range;
      if (size < bytes) continue;
      free_.erase(range);
      if (size > bytes) free_.emplace(at + bytes, size - bytes);
      return at;
    }
    return std::exchange(end_, end_ + bytes);
  }
  void give_back(int64_t at, int64_t bytes) {
    auto range = free_.emplace(at, bytes).first;
    if (const auto after = std::next(range); after != free_.end() && at + bytes == after->first) {
      range->second += after->second;
      free_.erase(after);
    }
    if (range != free_.begin())
      if (const auto before = std::prev(range); before->first + before->second == range->first) {
        before->second += range->second;
        free_.erase(range);
        range = before;
      }
    if (range->first + range->second < end_) return;
    end_ = range->first;
    free_.erase(range);
    // The disk has the room again. A failure leaves the file longer than it must be.
    if (::ftruncate(descriptor_, end_) != 0) return;
  }

  template <class Call>
  void transfer(int64_t at, int64_t bytes, const Call& call) {
    for (int64_t done = 0; done < bytes;) {
      const ssize_t moved = call(done);
      if (moved < 0 && errno == EINTR) continue;
      require<OutOfMemoryError>(moved >= 0 || (errno != ENOSPC && errno != EDQUOT), "FileStore: no room for ",
                                bytes, " bytes in '", folder_, "', where ", held_, " are held");
      require<AutogradError>(moved > 0, "FileStore: ", bytes, " bytes at ", at, " of the file in '", folder_,
                             "': ", moved == 0 ? "the file is too short" : std::strerror(errno));
      done += moved;
    }
  }

  const std::string folder_;
  int descriptor_ = -1;
  mutable std::mutex mutex_;
  int64_t end_ = 0, held_ = 0, peak_ = 0;
  std::map<int64_t, int64_t> free_;  // ranges before the end: where, and how many bytes
};

namespace {

/// A value in the file.
class FileValue final : public ValueSource {
 public:
  FileValue(const Tensor& value, std::shared_ptr<FileStore::File> file)
      : file_(std::move(file)), shape_(value.shape()), dtype_(value.dtype()), device_(value.device()) {
    const Tensor whole = value.to(cpu()).contiguous();
    bytes_ = whole.nbytes();
    at_ = file_->write(whole.raw_data(), bytes_);
  }
  ~FileValue() override { file_->release(at_, bytes_); }
  Tensor produce() override {
    const Tensor whole = Tensor::empty(shape_, dtype_, cpu());
    file_->read(at_, whole.raw_data(), bytes_);
    return whole.to(device_);
  }

 private:
  std::shared_ptr<FileStore::File> file_;
  Shape shape_;
  DType dtype_;
  Device device_;
  int64_t at_ = 0, bytes_ = 0;
};

}  // namespace

FileStore::FileStore(const std::string& folder) : file_(std::make_shared<File>(folder)) {}

SavingPolicy FileStore::policy() const {
  return [file = file_](const char*, const Tensor& value) -> std::shared_ptr<ValueSource> {
    if (value.numel() == 0) return nullptr;
    if (value.is_meta()) return std::make_shared<MetaValue>(value);
    return std::make_shared<FileValue>(value, file);
  };
}

int64_t FileStore::held_bytes() const {
  return file_->held();
}

int64_t FileStore::peak_bytes() const {
  return file_->peak();
}

int64_t FileStore::file_bytes() const {
  return file_->end();
}

}  // namespace tessera
